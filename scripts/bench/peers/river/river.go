// Package river runs flows as chains of River's jobs on a PostgreSQL of its own: a job is completed in the transaction
// that inserts the next. Start with Open; server.go starts the database.
package river

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/spritekit/lattice/scripts/bench/peers/peer"
)

type jobs struct {
	river.WorkerDefaults[job]
	postgres *postgres
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx]
	waiting  peer.Waiting
}

// job is one step of a flow.
type job struct {
	peer.Flow
	Done int `json:"done"`
}

func (job) Kind() string { return "step" }

// Open starts PostgreSQL, and River on it.
func Open(ctx context.Context, dir string) (peer.Engine, error) {
	p, err := startPostgres(ctx, dir)
	if err != nil {
		return nil, err
	}
	j := &jobs{postgres: p}
	if err := j.open(ctx); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *jobs) open(ctx context.Context) (err error) {
	if j.pool, err = pgxpool.New(ctx, j.postgres.address+" pool_max_conns=40"); err != nil {
		return err
	}
	driver := riverpgxv5.New(j.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, j)
	j.client, err = river.NewClient(driver, &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers, FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 100 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 64}},
	})
	if err != nil {
		return err
	}
	return j.client.Start(context.WithoutCancel(ctx))
}

// Work makes a step.
func (j *jobs) Work(ctx context.Context, this *river.Job[job]) error {
	next := this.Args
	if err := next.Step(ctx); err != nil {
		return err
	}
	next.Done++
	err := pgx.BeginFunc(ctx, j.pool, func(tx pgx.Tx) error {
		if next.Done < next.Steps {
			if _, err := j.client.InsertTx(ctx, tx, next, nil); err != nil {
				return err
			}
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, this)
		return err
	})
	if err == nil && next.Done >= next.Steps {
		j.waiting.End(next.Flow, nil)
	}
	return err
}

func (j *jobs) Run(ctx context.Context, f peer.Flow) error {
	return j.waiting.Run(ctx, f, func() error {
		_, err := j.client.Insert(ctx, job{Flow: f}, nil)
		return err
	})
}

func (j *jobs) About() string {
	return fmt.Sprintf("River %s, FetchCooldown 1 ms, on %s over a socket: a chain of jobs made by hand, each completed with the insertion of the next; retries and a queue that SQL can ask",
		peer.Version("github.com/riverqueue/river"), j.postgres.version)
}

func (j *jobs) Close() error {
	var err error
	if j.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = j.client.StopAndCancel(ctx)
	}
	if j.pool != nil {
		j.pool.Close()
	}
	return errors.Join(err, j.postgres.stop())
}
