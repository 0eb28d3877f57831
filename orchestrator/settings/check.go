package settings

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/schedule"
)

// checkSettings finds values of the right type that cannot be meant.
func checkSettings(s Settings) []Finding {
	var found []Finding
	bad := func(code, key, hint, format string, a ...any) {
		found = append(found, Finding{Code: code, Key: key, Message: fmt.Sprintf(format, a...), Hint: hint})
	}
	oneOf := func(key, value string, values []string) {
		if value != "" && !slices.Contains(values, value) {
			hint := "one of " + strings.Join(values, ", ")
			bad(CodeValue, key, hint, "%q is not known", value)
		}
	}
	oneOf("log_level", string(s.LogLevel), Levels())
	oneOf("min_isolation", string(s.MinIsolation), Isolations())
	for _, name := range slices.Sorted(maps.Keys(s.Actions)) {
		oneOf("actions."+name, string(s.Actions[name]), Rules())
		if !slices.Contains(ActionNames(), name) {
			bad(CodeValue, "actions."+name, "known: "+strings.Join(ActionNames(), ", "), "there is no action %q", name)
		}
	}
	found = append(found, checkBudgets(s.Budgets)...)
	for _, name := range s.World.Allow {
		if !manifests.ValidName(name) {
			bad(CodeValue, "world.allow", "name the skills one by one, such as \"gmail.send\"", "%q is not the name of a skill", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Schedules)) {
		checkSchedule(name, s.Schedules[name], bad)
	}
	oneOf("network", string(s.Network), Networks())
	if strings.Contains(s.Image, "/") && !strings.HasPrefix(s.Image, "/") && !strings.HasPrefix(s.Image, "~/") {
		bad(CodeValue, "image", "begin a path with / or ~/, or name an image (lattice image ls)", "%q is neither an image's name nor an absolute path", s.Image)
	}
	if s.Run.KeepTurns < 0 {
		bad(CodeValue, "run.keep_turns", "leave it out for the default", "%d is less than 0", s.Run.KeepTurns)
	}
	for _, p := range s.HostPorts {
		if p < 1 || p > 65535 {
			bad(CodeValue, "host_ports", "ports are numbers from 1 to 65535", "%d is no port", p)
		}
	}
	for key, n := range map[string]int{"limits.cpus": s.Limits.CPUs, "limits.pids": s.Limits.Pids} {
		if n < 0 {
			bad(CodeValue, key, "leave it out for the default", "%d is no limit", n)
		}
	}
	if s.Run.Allow != nil && len(s.Run.Allow) == 0 { // it would count as not said at all, and grant the default
		bad(CodeValue, "run.allow", "name what runs may do, such as \"fs:read\", or leave the setting out for the default (lattice run --help)", "the list names no permission")
	}
	permissions := append(manifests.Permissions(), "*")
	for _, p := range s.Run.Allow {
		if !slices.Contains(permissions, p) {
			bad(CodeValue, "run.allow", "known: "+strings.Join(permissions, " "), "there is no permission %q", p)
		}
	}
	checkAgentEnv("run.agent_env", s.Run.AgentEnv, bad)
	for key, paths := range map[string][]string{"spritekit": {s.Spritekit}, "templates": {s.Templates}, "boards": s.Boards, "flows": s.Flows, "tools": s.Tools, "skills": s.Skills, "steps": s.Steps, "schemas": s.Schemas} {
		for _, path := range paths {
			if path != "" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
				bad(CodeValue, key, "begin it with / or ~/", "%q is no absolute path", path)
			}
		}
	}
	if strings.ContainsAny(s.Git.Name, "<>\n\x00") {
		bad(CodeValue, "git.name", "", "a name has no <, > or line ends")
	}
	if s.Git.Email != "" && (!strings.Contains(s.Git.Email, "@") || strings.ContainsAny(s.Git.Email, "<> \n\x00")) {
		bad(CodeValue, "git.email", "", "%q is no address", s.Git.Email)
	}
	if (s.Git.Name == "") != (s.Git.Email == "") {
		bad(CodeValue, "git", "set git.name and git.email", "name and email belong together")
	}
	return slices.Concat(found, checkSprites(s.Sprites), checkStore(s.Store), checkEngine(s.Engine), checkModels(s), checkChannels(s), checkSecrets(s), checkForges(s))
}

func checkStore(s Store) []Finding {
	const hint = "write it as postgres://USER@HOST/DATABASE; the password is in PGPASSWORD or ~/.pgpass"
	if s.URL == "" {
		return nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return []Finding{{Code: CodeValue, Key: "store.url", Message: "it is not the URL of a PostgreSQL database", Hint: hint}}
	}
	if _, set := u.User.Password(); set || u.Query().Has("password") {
		return []Finding{{Code: CodeSecret, Key: "store.url", Message: "the URL holds a password", Hint: hint}}
	}
	return nil
}

func checkEngine(e Engine) (found []Finding) {
	bad := func(key, hint, message string) {
		found = append(found, Finding{Code: CodeValue, Key: "engine." + key, Message: message, Hint: hint})
	}
	if host, port, err := net.SplitHostPort(e.Temporal); e.Temporal != "" && (err != nil || host == "" || port == "") {
		bad("temporal", "such as 127.0.0.1:7233", "it is not an address HOST:PORT")
	}
	if e.Temporal == "" && e != (Engine{}) {
		bad("temporal", "set engine.temporal", "there is no address to which the other settings of [engine] belong")
	}
	blobs := e.Blobs
	if strings.Contains(blobs, "://") {
		if u, err := url.Parse(blobs); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") == "" || u.User != nil {
			bad("blobs", "such as https://s3.example.com/BUCKET/PREFIX; credentials belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "it is not the URL of a bucket")
		}
		blobs = ""
	}
	for key, path := range map[string]string{"blobs": blobs, "ca": e.CA, "cert": e.Cert, "key": e.Key} {
		if path != "" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
			bad(key, "begin it with / or ~/", "it is not an absolute path")
		}
	}
	if (e.Cert == "") != (e.Key == "") {
		bad("cert", "set engine.cert and engine.key", "certificate and key belong together")
	}
	return found
}

func checkSprites(s Sprites) []Finding {
	var found []Finding
	bad := func(code, key, message, hint string) {
		found = append(found, Finding{Code: code, Key: "sprites." + key, Message: message, Hint: hint})
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			bad(CodeValue, "url", "it is no http or https URL", "")
		case u.User != nil:
			bad(CodeSecret, "url", "the URL holds credentials", "leave them out and set token_env or token_file")
		}
	}
	const elsewhere = "token_env names an environment variable, token_file a file that only you may read"
	switch {
	case s.TokenEnv != "" && !variable().MatchString(s.TokenEnv), s.TokenEnv != "" && len(s.TokenEnv) >= 20 && tokenLike().MatchString(s.TokenEnv):
		bad(CodeSecret, "token_env", "it looks like a token, not like the name of a variable", elsewhere)
	case s.TokenFile != "" && !strings.HasPrefix(s.TokenFile, "/") && !strings.HasPrefix(s.TokenFile, "~/"):
		if tokenLike().MatchString(s.TokenFile) {
			bad(CodeSecret, "token_file", "it looks like a token, not like a path", elsewhere)
		} else {
			bad(CodeValue, "token_file", "it is no absolute path", "begin it with / or ~/")
		}
	}
	if s.TokenEnv != "" && s.TokenFile != "" {
		bad(CodeValue, "token_file", "token_env and token_file are both set", "keep one of them")
	}
	if s.URL == "" && (s.TokenEnv != "" || s.TokenFile != "") {
		bad(CodeValue, "url", "there is a token and no URL that it is for", "set sprites.url")
	}
	return found
}

func checkAgentEnv(key string, names []string, bad func(code, key, hint, format string, a ...any)) {
	for _, name := range names {
		if !variable().MatchString(name) || strings.HasPrefix(name, "LATTICE_") {
			bad(CodeValue, key, "the list holds names of variables, not their values", "%q cannot be passed to an agent", shortenValue(name))
		}
	}
}

func checkSchedule(name string, s Schedule, bad func(code, key, hint, format string, a ...any)) {
	key := "schedules." + name
	if !channelName().MatchString(name) {
		bad(CodeValue, key, "letters, digits, dot, dash and underscore", "%q is not a name", name)
	}
	if _, err := schedule.Parse(s.Cron); err != nil && (s.Cron != "" || !s.OnPush) {
		bad(CodeValue, key+".cron", "such as \"30 3 * * *\", at 3:30 each day", "%v", err)
	}
	if _, err := time.LoadLocation(s.Zone); err != nil {
		bad(CodeValue, key+".zone", "such as Europe/Berlin", "%q is not known", s.Zone)
	}
	kinds := manifests.Intents()
	kind, known := kinds[s.Kind]
	if !known {
		bad(CodeValue, key+".kind", "one of "+strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), "%q is not a kind of intent", s.Kind)
	}
	if s.Repo != "" && !strings.HasPrefix(s.Repo, "/") && !strings.Contains(s.Repo, ":") {
		bad(CodeValue, key+".repo", "write an absolute path or a URL", "%q is a relative path", s.Repo)
	}
	if s.OnPush && !strings.Contains(s.Repo, ":") {
		bad(CodeValue, key+".repo", "write its URL at a code host of the settings", "on_push needs the repository whose pushes count")
	}
	checkAgentEnv(key+".agent_env", s.AgentEnv, bad)
	levels := []Severity{Critical, High, Medium, Low}
	switch {
	case s.Severity != "" && !slices.Contains(levels, s.Severity):
		bad(CodeValue, key+".severity", "critical, high, medium or low", "%q is not a severity", s.Severity)
	case s.Severity != "" && known && kind.Then == nil:
		bad(CodeValue, key+".severity", "leave it out", "nothing follows an intent %s", s.Kind)
	case s.Severity.Repairs() && s.Repo == "":
		bad(CodeValue, key+".repo", "name the repository that is repaired", "a failure that is %s needs a repository", s.Severity)
	case !s.Severity.Repairs() && s.Remedy != nil:
		bad(CodeValue, key+".remedy", "set severity to critical or high", "nothing is repaired")
	}
	switch {
	case !s.PullRequest:
	case s.Kind != "health_detect" || !s.Severity.Repairs():
		bad(CodeValue, key+".pull_request", "leave it out", "it is for the repair of kind health_detect with the severity critical or high")
	case !strings.Contains(s.Repo, ":"):
		bad(CodeValue, key+".repo", "write its URL at a code host of the settings", "pull_request needs a repository at a code host")
	}
}
