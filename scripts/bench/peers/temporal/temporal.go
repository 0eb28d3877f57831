// Package temporal runs flows as workflows of Temporal's development server, tuned, each step an activity of a worker in
// this process. Start with Open. The server is the temporal command of PATH.
package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/spritekit/lattice/scripts/bench/peers/peer"
)

const queue = "bench"

type workflows struct {
	server  *peer.Server
	client  client.Client
	worker  worker.Worker
	version string
}

// Open starts the server and a worker. As it comes, the server looks for what to do 20 times a second, so that a step
// takes 100 ms; a comparison with that would be none.
func Open(ctx context.Context, dir string) (peer.Engine, error) {
	program, err := exec.LookPath("temporal")
	if err != nil {
		return nil, errors.New("no temporal on PATH: go install github.com/temporalio/cli/cmd/temporal@v1.5.1")
	}
	version, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	w := &workflows{version: strings.TrimSpace(string(version))}
	w.server, err = peer.Start(dir, nil, []string{"TEMPORAL_VERSION_CHECK_DISABLED=1", "HOME=" + dir}, program, "server", "start-dev", "--headless", "--log-level", "error",
		"--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--db-filename", filepath.Join(dir, "temporal.db"),
		"--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=2",
		"--dynamic-config-value", "history.transferProcessorMaxPollRPS=5000",
		"--dynamic-config-value", "history.transferProcessorMaxPollHostRPS=5000",
		"--dynamic-config-value", "system.enableActivityEagerExecution=true")
	if err != nil {
		return nil, err
	}
	if err := w.connect(ctx, fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *workflows) connect(ctx context.Context, address string) error {
	err := w.server.Await(ctx, func(ctx context.Context) (err error) {
		w.client, err = client.DialContext(ctx, client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		return err
	})
	if err != nil {
		return err
	}
	w.worker = worker.New(w.client, queue, worker.Options{})
	w.worker.RegisterWorkflow(run)
	w.worker.RegisterActivity(step)
	if err := w.worker.Start(); err != nil {
		w.worker = nil // there is nothing to stop
		return err
	}
	return w.server.Await(ctx, func(ctx context.Context) error { return w.Run(ctx, peer.Flow{ID: "first", Steps: 1}) })
}

func run(ctx workflow.Context, f peer.Flow) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range f.Steps {
		if err := workflow.ExecuteActivity(ctx, step, f).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func step(ctx context.Context, f peer.Flow) error { return f.Step(ctx) }

func (w *workflows) Run(ctx context.Context, f peer.Flow) error {
	started, err := w.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: f.ID, TaskQueue: queue}, run, f)
	if err != nil {
		return err
	}
	return started.Get(ctx, nil)
}

func (w *workflows) About() string {
	return w.version + ", development server, tuned (eager activities, polls unthrottled, SQLite that syncs), behind gRPC: says nothing about a cluster; timers, retries, queues, search and history are in it"
}

func (w *workflows) Close() error {
	if w.worker != nil {
		w.worker.Stop()
	}
	if w.client != nil {
		w.client.Close()
	}
	return w.server.Stop(syscall.SIGTERM)
}

// freePort is one that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
