import { describe, expect, it, test } from "vitest";

const add = (a: number, b: number): number => a + b;

test("adds", () => expect(add(1, 2)).toBe(3));

describe("table", () => {
  it("adds (wrongly)", () => {
    expect(add(1, 2)).toBe(4);
  });

  it.skip("is skipped", () => {});

  it.todo("is to do");
});

test("throws", () => {
  throw new TypeError("not a number");
});
