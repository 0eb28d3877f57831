package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
)

// codeHost is the code host of a script.
type codeHost struct {
	*forgetest.Server
	held <-chan struct{}
	sent int // deliveries
	// The last comment of the script with its text, and its last review.
	comment, reviewed int64
	said              string
	// target is the address to which the webhook leads.
	target atomic.Pointer[url.URL]
}

// driveCodeHost starts a code host for a script, and acts on it:
//
//	codehost start KIND DIR     serves the bare repository DIR as $REPO (acme/site) at $FORGE; $FORGE_TOKEN is that of lattice
//	codehost hold METHOD PATH   performs the next such request and gives no answer
//	codehost await              waits for that request
//	codehost limit N PAUSE      refuses all writes for the pause after each N
//	codehost lose METHOD PATH   performs the next such request and cuts the connection
//	codehost issue USER TITLE   opens an issue
//	codehost close USER NUMBER  closes an issue
//	codehost label USER NUMBER LABEL   adds a label to it
//	codehost role USER ROLE     changes a role
//	codehost ci BRANCH STATE    lets its CI say success, failure or pending about the newest commit of a branch
//	codehost app FILE           adds the App 7 with the installation 70, and writes its private key
//	codehost dump FILE          writes its state, see forgetest.Server.Dump
func driveCodeHost(ts *testscript.TestScript, neg bool, args []string) {
	h := ts.Value("codehost").(*codeHost)
	if neg || len(args) == 0 || h.Server == nil && args[0] != "start" {
		ts.Fatalf("usage: codehost VERB…, beginning with start")
	}
	const site = "acme/site"
	switch rest := args[1:]; args[0] + " " + strings.Repeat("x", len(rest)) {
	case "start xx":
		dir, err := filepath.Abs(ts.MkAbs(rest[1]))
		ts.Check(err)
		h.Server = forgetest.New(forge.Kind(rest[0]))
		ts.Defer(h.Close)
		_, token := h.AddUser("lattice", "Bot")
		h.AddUser("ann", "User")
		ts.Setenv("REPO", h.AddRepository(site, dir))
		h.SetRole(site, "lattice", forge.Write)
		h.SetRole(site, "ann", forge.Maintain)
		ts.Setenv("FORGE", h.URL)
		ts.Setenv("FORGE_TOKEN", token)
	case "hold xx":
		h.held = h.HoldAnswer(rest[0], rest[1])
	case "await ":
		<-h.held
	case "limit xx":
		writes, err := strconv.Atoi(rest[0])
		ts.Check(err)
		pause, err := time.ParseDuration(rest[1])
		ts.Check(err)
		h.LimitWrites(writes, pause, time.Now)
	case "lose xx":
		h.LoseAnswer(rest[0], rest[1])
	case "issue xx":
		h.OpenIssue(site, rest[0], rest[1], "")
	case "close xx":
		h.CloseIssue(site, rest[0], numberOf(ts, rest[1]))
	case "label xxx":
		h.Label(site, rest[0], numberOf(ts, rest[1]), rest[2])
	case "role xx":
		h.SetRole(site, rest[0], forge.Role(rest[1]))
	case "ci xx":
		h.SetCI(site, h.Branch(site, rest[0]), "ci/build", forge.CheckState(rest[1]))
	case "app x":
		ts.Check(os.WriteFile(ts.MkAbs(rest[0]), h.AddApp(7, 70, "lattice-app", site, time.Now), 0o600))
	case "dump x":
		ts.Check(os.WriteFile(ts.MkAbs(rest[0]), []byte(h.Dump()), 0o600))
	default:
		if h.talk(ts, args) || h.attack(ts, args) {
			return
		}
		ts.Fatalf("codehost %s: not known, or another number of arguments", strings.Join(args, " "))
	}
}

func numberOf(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}
