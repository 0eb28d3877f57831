package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
)

// helloWait bounds the wait for the answer of a leader.
const helloWait = 3 * time.Second

// storeLimit bounds the look at the leader and through the whole store.
const storeLimit = time.Minute

// lookAtLeader checks the leader. Without one, it holds the lock for the moment in which it looks into the store, so
// that no leader finds the store taken.
func lookAtLeader(ctx context.Context, env *setup.Env) []Check {
	dir := home.Home(env.Home)
	lock, err := dir.Acquire()
	if errors.Is(err, home.ErrLed) {
		return lookAtOther(ctx, env)
	}
	if err != nil {
		return []Check{newCheck("leader", Fail, "set LATTICE_HOME to a directory that you can write to", "%v", err)}
	}
	free := newCheck("leader", OK, "", "no process leads %s; the next command will, on %s", env.Home, dir.Socket())
	checks := []Check{free, lookAtStore(ctx, env.StoreAddress())}
	if host, ok := lookAtHost(dir.Sprites()); ok {
		checks = append(checks, host)
	}
	if err := lock.Unlock(); err != nil {
		checks[0] = newCheck("leader", Fail, "try again", "give up the lock: %v", err)
	}
	return checks
}

// lookAtOther asks the process that leads.
func lookAtOther(ctx context.Context, env *setup.Env) []Check {
	socket := home.Home(env.Home).Socket()
	c := api.NewClient(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	hello, err := c.Hello(ctx)
	if err != nil {
		return []Check{newCheck("leader", Fail, "find it with: fuser "+env.Home+"/lattice.lock, and end it", "another process holds %s but does not answer on %s: %v", env.Home, socket, err)}
	}
	who := fmt.Sprintf("process %d (lattice %s) leads %s on %s", hello.PID, hello.Version, hello.Home, socket)
	if hello.API != api.Version {
		return []Check{newCheck("leader", Warn, "use the newer of the two: it takes over by itself", "%s and speaks version %d of the leader's interface, this lattice speaks %d", who, hello.API, api.Version)}
	}
	if _, err := c.Runs(ctx, api.RunList{Limit: 1}); err != nil {
		return []Check{
			newCheck("leader", OK, "", "%s", who),
			newCheck("store", Fail, "end the leader, then: lattice store check", "the leader cannot read its runs: %v", err),
		}
	}
	doing := "idle"
	if hello.Driven > 0 {
		doing = "driving " + cli.Count(hello.Driven, "run", "runs")
	}
	checks := []Check{
		newCheck("leader", OK, "", "%s, %s", who, doing),
		newCheck("store", OK, "", "open in the leader, with %s", cli.Count(hello.Runs, "run", "runs")),
	}
	if hello.Sandbox == "none" {
		checks = append(checks, newCheck("sprites", Fail, sprites.Remedy(&sprites.APIError{Code: sprites.CodeDamaged}), "%s", hello.Warning))
	}
	return checks
}

// lookAtStore opens the store for reading. The caller leads.
func lookAtStore(ctx context.Context, address string) Check {
	if _, err := os.Stat(address); errors.Is(err, os.ErrNotExist) && !store.IsDatabase(address) {
		return newCheck("store", OK, "", "does not exist yet: there were no runs")
	}
	s, err := store.OpenReadOnly(address)
	if errors.Is(err, store.ErrMissing) {
		return newCheck("store", Warn, "the first run makes the tables, if the database is the right one", "%v", err)
	}
	if err != nil {
		return newCheck("store", Fail, storeRemedy(err), "%v", err)
	}
	path := s.Name()
	runs, err := s.Count()
	problems, checkErr := s.Check(ctx, nil)
	if err = errors.Join(err, checkErr, s.Close()); err != nil {
		return newCheck("store", Fail, storeRemedy(err), "read %s: %v", path, err)
	}
	if len(problems) > 0 {
		return newCheck("store", Fail, storeRemedy(nil), "%s has %s, the first: %s", path, cli.Count(len(problems), "fault", "faults"), problems[0])
	}
	return newCheck("store", OK, "", "%s is sound, with %s", path, cli.Count(runs, "run", "runs"))
}

// lookAtHost looks into the sprite host's database, where there is one.
func lookAtHost(dir string) (c Check, ok bool) {
	a, err := records.AuditDir(dir)
	const remedy = "end every lattice, then: lattice store repair"
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c, false
	case errors.Is(err, records.ErrServed):
		return newCheck("sprites", OK, "", "another process serves %s", dir), true
	case err != nil:
		return newCheck("sprites", Fail, remedy, "%v", err), true
	case len(a.Problems) > 0:
		return newCheck("sprites", Fail, remedy, "%s has %s, the first: %s", a.Path, cli.Count(len(a.Problems), "fault", "faults"), a.Problems[0]), true
	}
	return newCheck("sprites", OK, "", "%s is sound, with %s", a.Path, cli.Count(a.Sprites, "sprite", "sprites")), true
}

func storeRemedy(err error) string {
	var f *store.Failure
	switch {
	case errors.Is(err, store.ErrUnreachable), errors.Is(err, store.ErrRefused), errors.Is(err, store.ErrAddress):
		errors.As(err, &f)
		_, _, hint := f.Advice()
		return hint
	case errors.Is(err, store.ErrNewer):
		return "use the newer lattice that wrote it, or another LATTICE_HOME"
	case errors.Is(err, store.ErrLocked):
		return "end the process that has it open; find it with: fuser PATH"
	}
	return "run lattice store check, and restore a backup with lattice store restore"
}
