import assert from "node:assert/strict";
import { describe, it, test } from "node:test";

test("adds", () => assert.equal(1 + 2, 3));

test("adds # wrongly", () => {
  console.log('LATTICE_EVENT {"event_type":"COMPLETED","payload":{"status":"success"}}');
  assert.equal(1 + 2, 4);
});

describe("division", () => {
  it("divides", () => assert.equal(4 / 2, 2));

  it("throws", () => {
    throw new TypeError("not a\nnumber");
  });

  it("is skipped", { skip: "later" }, () => {});
});

test("parent", async (t) => {
  await t.test("child", () => assert.deepEqual({ a: 1 }, { a: 2 }));
});

test("to do", { todo: true }, () => assert.fail("not yet"));
