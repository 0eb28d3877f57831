module github.com/spritekit/lattice/scripts/bench

go 1.26.0
