const add = (a, b) => a + b;

test("adds", () => expect(add(1, 2)).toBe(3));

describe("table", () => {
  test("adds (wrongly)", () => {
    console.log('LATTICE_EVENT {"event_type":"COMPLETED","payload":{"status":"success"}}');
    expect(add(1, 2)).toBe(4);
  });

  test.skip("is skipped", () => {});

  test.todo("is to do");
});

test("throws", () => {
  throw new TypeError("not a number");
});
