package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
)

// A schedule comes due while no node leads, and one delivery of a webhook reaches every node, again and again, while two leaders are killed one
// after the other. The schedule has one intent, the delivery one outcome, its command one intent, and its issue each comment once.
func TestNodesActOnce(t *testing.T) {
	if testing.Short() || runtime.GOARCH != "amd64" {
		t.Skip("this machine has no clock that a test can set")
	}
	t.Parallel()
	c := newCluster(t, false)
	const site, secret = "acme/site", "0123456789abcdef"
	origin := filepath.Join(c.dir, "origin.git")
	host := forgetest.New(forge.GitHub)
	t.Cleanup(host.Close)
	j := &job{dir: c.dir}
	j.sh(t, "git init -q --bare -b main "+origin+" && git init -q -b main src && cd src && echo x >README && git add . && git -c user.name=a -c user.email=a@localhost commit -qm first && git push -q "+origin+" main")
	_, token := host.AddUser("lattice", "Bot")
	host.AddUser("ann", "User")
	host.AddRepository(site, origin)
	host.SetRole(site, "lattice", forge.Write)
	host.SetRole(site, "ann", forge.Maintain)
	host.AddHook(site, "http://"+c.addresses[0]+"/hooks/main", secret)
	c.configure(fmt.Sprintf(`[forges.main]
kind = "github"
url = %q
token_env = "FORGE_TOKEN"
webhook_secret_env = "HOOK_SECRET"
repositories = [%q]
input = { agent_command = ["sh", "-c", "cat >/dev/null; echo The plan of the agent."] }
[schedules.hourly]
cron = "0 * * * *"
zone = "UTC"
kind = "health_detect"
input = { command = "true" }
`, host.URL, site))
	clock := filepath.Join(c.dir, "clock")
	half := time.Until(time.Now().Truncate(time.Hour).Add(90 * time.Minute)) // past an hour, so that none begins by itself
	setClock(t, clock, half)
	c.env = append(c.env, "FORGE_TOKEN="+token, "HOOK_SECRET="+secret, clockEnv+"="+clock)
	c.startAll()
	c.awaitOutput("the schedule is known", `"known":true`, "schedule", "ls", "--json")

	issue := host.OpenIssue(site, "ann", "It hangs", "")
	host.Comment(site, "ann", issue, "/lattice plan")
	deliveries := host.Deliveries()
	delivery := deliveries[len(deliveries)-1]
	send := func(n int) { // to a node, and while that does not take it to the next one, as a proxy in front does
		taken := c.reached(func() bool {
			status, err := host.SendTo(context.Background(), "http://"+c.addresses[n%3]+"/hooks/main", delivery)
			n++
			return err == nil && status == http.StatusAccepted
		})
		if !taken {
			t.Error("no node takes the delivery")
		}
	}
	killed := -1
	for round := range 2 {
		leader := c.awaitLeader()
		send(leader + 1 + round) // through a standby
		c.kill(leader, syscall.SIGKILL)
		if round == 0 {
			setClock(t, clock, half+time.Hour)
		}
		var group sync.WaitGroup
		for n := range c.nodes {
			group.Go(func() { send(n) })
		}
		if killed = leader; c.awaitLeader(killed) == killed {
			t.Error("a node leads that was killed")
		}
		group.Wait()
		c.start(killed)
		c.awaitOutput("the schedule was due", `"last_intent":"int_`, "schedule", "ls", "--json")
	}
	c.awaitAll()
	c.await("the issue has the plan", func() bool {
		issues := host.Dump()
		return strings.Contains(issues, "The plan of the agent.") && strings.Contains(issues, "has succeeded")
	})
	for n := range c.nodes {
		send(n)
	}
	c.await("each delivery was handled", func() bool { return !strings.Contains(c.output("forge", "deliveries"), "not handled yet") })

	audit, intents, issues := c.output("audit", "ls", "--json"), c.output("intent", "ls", "--json"), host.Dump()
	for text, in := range map[string]string{
		`"subject":"forge:main"`:         audit, // the delivery
		`"subject":"forge-handled:main"`: audit, // its outcome
		`"kind":"command"`:               audit,
		`"kind":"health_detect"`:         intents, // of the schedule
		`"kind":"issue_triage"`:          intents, // of the command
		"has succeeded":                  issues,  // the comment about the run
		"The plan of the agent.":         issues,
	} {
		if got := strings.Count(in, text); got != 1 {
			t.Errorf("%s is there %d times, want 1:\n%s", text, got, in)
		}
	}
	c.endAll()
}

// output returns what a command prints that talks to the leader, "" if it fails.
func (c *cluster) output(args ...string) string {
	leader := c.leader()
	if leader < 0 {
		return ""
	}
	out, _ := c.command(leader, args...).Output() // a leader may have ended
	return string(out)
}

// awaitOutput waits until a command that talks to the leader prints a text.
func (c *cluster) awaitOutput(what, text string, args ...string) {
	c.t.Helper()
	c.await(what, func() bool { return strings.Contains(c.output(args...), text) })
}

// setClock sets how far the clocks of the processes with this file are ahead.
func setClock(t *testing.T, file string, ahead time.Duration) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600) // they have mapped it, so it stays the same file
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(binary.LittleEndian.AppendUint64(nil, uint64(ahead/time.Second))); err != nil {
		t.Fatal(err)
	}
}
