// Frames over POST bear no length; this client tells them apart by the pauses between them. On a busy machine two may arrive
// as one, and it takes what lies between for output: so one whole answer of a few proves the framing.
// Usage: await framed(() => sprite.execFileHTTP(…), (result) => …) where the second throws when the result is not right
export async function framed(run, check) {
  for (let tries = 1; ; tries++) {
    try {
      return check(await run().catch((err) => err));
    } catch (err) {
      if (tries === 10) throw err;
    }
  }
}
