const assert = require("node:assert/strict");

describe("calc", () => {
  it("adds", () => assert.equal(1 + 2, 3));

  it("adds (wrongly)", () => {
    assert.equal(1 + 2, 4);
  });

  it("is pending");

  it("times out", function (done) {
    this.timeout(20);
  });

  describe("with a hook", () => {
    before(() => {
      throw new Error("no database");
    });

    it("never runs", () => {});
  });
});
