//go:build race

package engine_test

// underRace: allocations are not those of the real thing, and ten thousand steps take long.
const underRace = true
