package main

import (
	"context"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// makeDatabase sets DATABASE to the URL of an empty database, with its password.
func makeDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: database")
	}
	s, err := postgrestest.Get()
	ts.Check(err)
	address, err := s.Create(context.Background())
	ts.Check(err)
	ts.Setenv("DATABASE", address)
	ts.Setenv("PASSWORD", postgrestest.Password)
}
