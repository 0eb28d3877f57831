package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

var soakLoad = flag.Duration("soak-load", 0, "use one leader in all ways at once for this long")

// TestMixedLoad has one leader run flows, fork, checkpoint, list, kill and delete, all at once, for as long as -soak-load
// says, with a host.db that grows past 4 MiB meanwhile. Everything gets its answer in time, nothing fails but what a delete
// or a kill explains, the leader ends when it is told to, and what it leaves is sound.
func TestMixedLoad(t *testing.T) {
	const patience = time.Minute // for one answer, on a busy machine
	job := newJob(t)
	defer job.remove()
	home := home.Home(job.dir + "/home")
	job.sh(t, job.bin+` flow new 'fs.write path=a content=hi | fs.read path=a' -o flow.json`)

	serve := exec.Command(job.bin, "serve")
	serve.Dir, serve.Env = job.dir, job.env
	var said strings.Builder
	serve.Stderr = &said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	client := sprites.New(api.Base, "", api.HTTPClient(home.Socket()))
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err := client.List(t.Context(), ""); err == nil {
			break
		} else if time.Since(begun) > patience {
			t.Fatalf("nobody leads: %v\n%s", err, said.String())
		}
	}

	ctx, stop := context.WithTimeout(t.Context(), max(*soakLoad, 8*time.Second))
	defer stop()
	var done [6]atomic.Int64
	explained := func(err error) bool { // by what others do to the same sprite
		return errors.Is(err, sprites.ErrNotFound) || strings.Contains(err.Error(), "signal") || strings.Contains(err.Error(), "ended")
	}
	must := func(what string, err error) {
		if err != nil && !explained(err) {
			t.Errorf("%s: %v", what, err)
			stop()
		}
	}
	bulk := map[string]string{"BULK": strings.Repeat("x", 60<<10)} // so that records make the file grow
	var names atomic.Int64
	fresh := func(kind string) string { return fmt.Sprintf("%s-%d", kind, names.Add(1)) }
	if _, err := client.Create(ctx, sprites.Create{Name: "base"}); err != nil {
		t.Fatal(err)
	}
	work := []func(context.Context){
		func(ctx context.Context) { // runs
			cmd := exec.CommandContext(ctx, job.bin, "run", "flow.json")
			cmd.Dir, cmd.Env = job.dir, job.env
			if out, err := cmd.CombinedOutput(); err != nil {
				must("run: "+string(out), err)
			}
		},
		func(ctx context.Context) { // forks, which run something and go
			name := fresh("fork")
			_, err := client.Fork(ctx, "base", sprites.Current, name)
			must("fork", err)
			_, err = client.Exec(ctx, name, sprites.Exec{Cmd: []string{"sh", "-c", "echo $$ >/workspace/f"}})
			must("exec", err)
			must("delete", client.Delete(ctx, name))
		},
		func(ctx context.Context) { // checkpoints
			p, err := client.Checkpoint(ctx, "base", "")
			must("checkpoint", err)
			if rand.IntN(2) == 0 && err == nil {
				must("delete checkpoint", client.DeleteCheckpoint(ctx, "base", p.ID))
			}
		},
		func(ctx context.Context) { // lists
			_, err := client.List(ctx, "")
			must("list", err)
			_, err = client.Checkpoints(ctx, "base")
			must("checkpoints", err)
		},
		func(ctx context.Context) { // kills
			name := fresh("kill")
			_, err := client.Create(ctx, sprites.Create{Name: name})
			must("create", err)
			var session atomic.Value
			go func() {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
				if id, ok := session.Load().(string); ok {
					_ = client.Kill(ctx, name, id, "KILL") // it may not have begun
				}
			}()
			short, cancel := context.WithTimeout(ctx, time.Second)
			_, err = client.Exec(short, name, sprites.Exec{Cmd: []string{"sleep", "0.4"}, OnSession: func(id string) { session.Store(id) }})
			cancel()
			if short.Err() == nil {
				must("exec to be killed", err)
			}
			must("delete", client.Delete(ctx, name))
		},
		func(ctx context.Context) { // records, of which half stay
			name := fresh("bulk")
			_, err := client.Create(ctx, sprites.Create{Name: name, Environment: bulk})
			must("create", err)
			if rand.IntN(2) == 0 {
				must("delete", client.Delete(ctx, name))
			}
		},
	}
	var workers sync.WaitGroup
	for i, one := range work {
		workers.Go(func() {
			for ctx.Err() == nil {
				if kept := names.Load(); i == 5 && kept > 1500 {
					return // large enough
				}
				call, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
				one(call)
				if call.Err() != nil {
					t.Errorf("worker %d got no answer in %v", i, patience)
					stop()
				}
				cancel()
				done[i].Add(1)
			}
		})
	}
	workers.Wait()
	info, err := os.Stat(filepath.Join(home.Sprites(), "host.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs, %d forks, %d checkpoints, %d lists, %d kills, %d records; host.db has %d KiB",
		done[0].Load(), done[1].Load(), done[2].Load(), done[3].Load(), done[4].Load(), done[5].Load(), info.Size()>>10)
	if *soakLoad > time.Minute && info.Size() < 4<<20 {
		t.Errorf("host.db has %d bytes only", info.Size())
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(2 * cli.EndWithin):
		_ = serve.Process.Kill()
		<-ended
		t.Error("the leader does not end")
	}
	if strings.Contains(said.String(), "ended by force") {
		t.Errorf("the leader hung:\n%s", said.String())
	}
	job.sh(t, job.bin+` store check`)
	job.judgeAll(t)
}
