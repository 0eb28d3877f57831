// Command scale shows several nodes on one database, on this machine: it starts PostgreSQL, a host of sprites and three nodes, starts
// runs through all of them, kills the leader half-way, and counts the effects. It needs the built programs and no root. With a Temporal
// server it shows the same once more, with runs that the server schedules.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	runs := flag.Int("runs", 200, "how many runs are started")
	bin := flag.String("bin", "bin", "folder of the built programs")
	server := flag.String("temporal", "", "`PROGRAM` of a Temporal server, for which bin/temporal/lattice is built")
	flag.Parse()
	if !postgrestest.Installed() {
		fmt.Println("scale: skipped: no PostgreSQL server in /usr/lib/postgresql; Debian has it in the package postgresql")
		return
	}
	err := showNodes(ctx, filepath.Join(*bin, "lattice"), "", *runs)
	if err == nil && *server == "" {
		fmt.Println("without Temporal: LATTICE_TEMPORAL does not name the program temporal")
	} else if err == nil {
		err = showNodes(ctx, filepath.Join(*bin, "temporal", "lattice"), *server, *runs)
	}
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "scale: interrupted; nothing is left behind")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// showNodes runs the demonstration in a folder of its own, prints the progress, and removes everything. server is the program of a Temporal
// server, "" for none.
func showNodes(ctx context.Context, lattice, server string, runs int) (err error) {
	lattice, err = filepath.Abs(lattice)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lattice-scale-")
	if err != nil {
		return err
	}
	database, err := postgrestest.New()
	if err != nil {
		return err
	}
	c := &cluster{program: lattice, dir: dir, database: database, temporal: server}
	defer func() { err = errors.Join(err, c.close(), database.Remove(), os.RemoveAll(dir)) }()
	if err := c.open(ctx); err != nil {
		return err
	}
	also := ""
	if server != "" {
		also = "Temporal, "
	}
	fmt.Printf("started PostgreSQL, %sa host of sprites and three nodes; node %d leads\n", also, c.awaitLeader(ctx))
	begun := now()
	took, err := c.workOff(ctx, runs)
	if err != nil {
		return err
	}
	once, err := c.countEffects(ctx, runs)
	if err != nil {
		return err
	}
	fmt.Printf("%d of %d runs done in %.1f s, %d effects, each of them once; a takeover took %.1f s\n",
		runs, runs, now().Sub(begun).Seconds(), once, took.Seconds())
	return nil
}
