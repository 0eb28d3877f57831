package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
)

// driveGitea starts Gitea itself for a script:
//
//	gitea start DIR   has the commits of the bare repository DIR as $REPO (acme/site) at $FORGE; $FORGE_TOKEN is a token of lattice,
//	                  $PERSON one of acme, and $HOOK an address for webhooks
//	gitea hook FILE   has $HOOK lead to the lattice serve that printed FILE
func driveGitea(ts *testscript.TestScript, neg bool, args []string) {
	h, ctx := ts.Value("codehost").(*codeHost), context.Background()
	if neg || len(args) != 2 {
		ts.Fatalf("usage: gitea start DIR, or gitea hook FILE")
	}
	if args[0] == "hook" {
		h.aim(ts, args[1])
		return
	}
	g, err := forgetest.StartGitea(ctx, os.Getenv(forgetest.GiteaEnv))
	ts.Check(err)
	ts.Defer(g.Close)
	token, err := g.AddUser(ctx, "lattice")
	ts.Check(err)
	ask := func(method, path string, in any) {
		body, err := json.Marshal(in)
		ts.Check(err)
		r, err := http.NewRequestWithContext(ctx, method, g.URL+"/api/v1"+path, strings.NewReader(string(body)))
		ts.Check(err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "token "+g.OwnerToken())
		res, err := http.DefaultClient.Do(r)
		ts.Check(err)
		res.Body.Close()
		if res.StatusCode > 299 {
			ts.Fatalf("%s %s: %s", method, path, res.Status)
		}
	}
	ask("POST", "/user/repos", map[string]any{"name": "site", "default_branch": "main"})
	ask("PUT", "/repos/acme/site/collaborators/lattice", map[string]any{"permission": "admin"})
	ts.Check(ts.Exec("git", "-C", ts.MkAbs(args[1]), "push", "-q", strings.Replace(g.URL, "://", "://x:"+g.OwnerToken()+"@", 1)+"/acme/site.git", "main"))
	for name, value := range map[string]string{"FORGE": g.URL, "REPO": g.URL + "/acme/site.git", "FORGE_TOKEN": token, "PERSON": g.OwnerToken(), "HOOK": h.serveProxy(ts)} {
		ts.Setenv(name, value)
	}
}
