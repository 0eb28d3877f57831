package forgetest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/forgetest"
	"github.com/spritekit/lattice/orchestrator/forge/github"
)

// judge reads a line of JSON for each exchange. It prints what is wrong with the document by GitHub's schema, or else what differs when
// the reference implementation executes the document on the answer; nothing if all is well.
const judge = `
const { buildClientSchema, parse, validate, executeSync, specifiedRules, NoDeprecatedCustomRule } = require(process.argv[1] + "/graphql");
const published = require(process.argv[1] + "/@octokit/graphql-schema/schema.json");
const schema = buildClientSchema(published.data ?? published);
const fault = ({ query, variables, answer }) => {
  const document = parse(query);
  const wrong = validate(schema, document, [...specifiedRules, NoDeprecatedCustomRule]);
  if (wrong.length) return wrong.map(e => e.message).join("; ");
  if (answer.errors) return answer.data ? "errors and data" : "";
  const done = executeSync({ schema, document, variableValues: variables, rootValue: answer.data });
  const same = require("util").isDeepStrictEqual(JSON.parse(JSON.stringify(done)), { data: answer.data });
  return same ? "" : "the answer is " + JSON.stringify(answer) + ", and by the schema " + JSON.stringify(done);
};
console.log(JSON.stringify(JSON.parse(require("fs").readFileSync(0, "utf8")).map(fault)));`

// exchange is a GraphQL document that was sent, and the answer.
type exchange struct {
	Query     string          `json:"query"`
	Variables map[string]any  `json:"variables"`
	Answer    json.RawMessage `json:"answer"`
}

// judgeExchanges returns what is wrong with each exchange by GitHub's published schema.
func judgeExchanges(t *testing.T, all []exchange) (faults []string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: GraphQL is not held against GitHub's schema")
	}
	modules := filepath.Join(os.Getenv("LATTICE_NPM_CACHE"), "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "@octokit/graphql-schema")); err != nil || os.Getenv("LATTICE_NPM_CACHE") == "" {
		t.Skip("@octokit/graphql-schema is not in $LATTICE_NPM_CACHE: GraphQL is not held against GitHub's schema")
	}
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "-e", judge, modules)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &faults); err != nil || len(faults) != len(all) {
		t.Fatalf("the faults are %s, %v", out, err)
	}
	return faults
}

// recordGraphQL returns the address of a server that passes requests on to w, and the exchanges of GraphQL that it has seen.
func recordGraphQL(w *world) (address string, all *[]exchange) {
	all = new([]exchange)
	target, err := url.Parse(w.URL)
	w.check(err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/graphql" {
			proxy.ServeHTTP(rw, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		proxy.ServeHTTP(rec, r)
		var one exchange
		if err := json.Unmarshal(body, &one); err != nil {
			w.Error(err)
		}
		one.Answer = rec.Body.Bytes()
		*all = append(*all, one)
		rw.WriteHeader(rec.Code)
		_, _ = rw.Write(rec.Body.Bytes())
	}))
	w.Cleanup(s.Close)
	return s.URL, all
}

// TestGraphQL resolves threads, and holds each document that the client sends and each answer of the server against the schema that
// GitHub publishes.
func TestGraphQL(t *testing.T) {
	eachKind(t, func(w *world) {
		if w.kind != forge.GitHub {
			return
		}
		ctx := t.Context()
		address, all := recordGraphQL(w)
		bot := github.New(address, w.options("token-of-lattice"))
		w.commit("second")
		w.push("sprite/1")
		opened, err := bot.OpenPull(ctx, site, forge.NewPull{Title: "x", Head: "sprite/1", Base: "main"})
		w.check(err)
		_, token := w.AddUser("ann", "User")
		w.Review("acme/site", "ann", int(opened.Number), forgetest.Review{State: "COMMENTED", Comments: []forgetest.LineComment{{Path: "second", Line: 1, Body: "why?"}}})
		comments, err := bot.ReviewComments(ctx, site, opened.Number)
		w.check(err)
		resolve := func(c *github.Client, comment int64, want bool) {
			t.Helper()
			if resolved, err := c.ResolveOutdated(ctx, site, opened.Number, comment); err != nil || resolved != want {
				t.Errorf("the thread of %d is resolved: %t, %v", comment, resolved, err)
			}
		}
		resolve(bot, comments[0].ID, false) // its line is as it was
		resolve(bot, 1, false)              // there is none
		w.check(os.WriteFile(filepath.Join(w.work, "second"), []byte("other\n"), 0o600))
		w.git(w.work, "commit", "-qam", "other")
		w.push("sprite/1")
		if _, err := github.New(address, w.options(token)).ResolveOutdated(ctx, site, opened.Number, comments[0].ID); err == nil {
			t.Error("somebody without a role resolves a thread")
		}
		resolve(bot, comments[0].ID, true)
		resolve(bot, comments[0].ID, true) // it is resolved

		documents := map[string]bool{}
		for _, one := range *all {
			documents[one.Query] = true
		}
		source, err := os.ReadFile("../github/graphql.go")
		w.check(err)
		if calls := strings.Count(string(source), "c.sendQuery("); calls != len(documents) {
			t.Errorf("the client sends %d documents, and %d are tried", calls, len(documents))
		}
		for i, fault := range judgeExchanges(w.T, *all) {
			if fault != "" {
				t.Errorf("%s\nanswered with %s: %s", (*all)[i].Query, (*all)[i].Answer, fault)
			}
		}
	})
}

// TestGraphQLFaults has the judge of TestGraphQL see exchanges that GitHub would not have.
func TestGraphQLFaults(t *testing.T) {
	query := func(members string) string { return `{ repository(owner: "a", name: "b") { ` + members + ` } }` }
	all := []exchange{
		{Query: query("nothing"), Answer: json.RawMessage(`{"data": {"repository": {"nothing": 1}}}`)},
		{Query: query("databaseId pullRequest { id }"), Answer: json.RawMessage(`{"data": {}}`)},
		{Query: query("id isPrivate"), Answer: json.RawMessage(`{"data": {"repository": {"id": "R_1"}}}`)},
		{Query: query("id isPrivate"), Answer: json.RawMessage(`{"data": {"repository": {"id": "R_1", "isPrivate": "no"}}}`)},
		{Query: query("id"), Answer: json.RawMessage(`{"data": {"repository": {"id": "R_1", "isPrivate": true}}}`)},
		{Query: query("pullRequest(number: 1) { reviewThreads(first: 1) { nodes { comments(first: 1) { nodes { databaseId } } } } }"), Answer: json.RawMessage(`{"data": {}}`)},
		{Query: query("id isPrivate"), Answer: json.RawMessage(`{"data": {"repository": {"id": "R_1", "isPrivate": true}}}`)},
	}
	faults := judgeExchanges(t, all)
	for i, want := range []string{`Cannot query field "nothing"`, "argument \"number\"", "Cannot return null", "Boolean cannot represent", "by the schema", "deprecated", ""} {
		if want == "" && faults[i] != "" || !strings.Contains(faults[i], want) {
			t.Errorf("%d: the fault is %q, not %q", i, faults[i], want)
		}
	}
}
