import { test } from "node:test";

test("crashes", () => process.exit(3));
