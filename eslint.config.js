// The page's scripts run in browsers as they are, and their unit tests in Node.

import js from "@eslint/js";
import globals from "globals";

const rules = {
  ...js.configs.recommended.rules,
  "no-unused-vars": ["error", { ignoreRestSiblings: true }],
  "no-var": "error",
  "prefer-const": "error",
  eqeqeq: "error",
  "no-shadow": "error",
  "no-eval": "error",
  "no-implied-eval": "error",
  "no-new-func": "error",
  "no-restricted-properties": [
    "error",
    ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property, message: "Text goes in as text: use h() and fill()." })),
    { object: "document", property: "write", message: "Text goes in as text: use h() and fill()." },
  ],
  "max-lines": ["error", 320],
};

export default [
  { ignores: [".venv/", ".venv-*/", "node_modules/"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  { files: ["src/sumwise/web/static/*.js"], languageOptions: { globals: globals.browser }, rules },
  { files: ["tests/javascript/*.js", "eslint.config.js"], languageOptions: { globals: globals.node }, rules },
];
