package settings

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Secret is a credential that a sprite may ask for by its name (credential.fetch). The settings hold its place, never
// its value.
//
//	[secrets.npm]
//	provider = "file"
//	file = "~/.config/lattice/npm-token"
//	variable = "NPM_TOKEN"
//
//	[secrets.deploy]
//	provider = "helper"
//	command = ["/usr/local/bin/mint-token", "deploy"]
//	ttl = "5m"
//
//	[secrets.github]
//	provider = "app"
//	forge = "main"
type Secret struct {
	// Provider is where the value comes from: env, file, age, helper or app.
	Provider SecretProvider `json:"provider"`
	// Env names the environment variable that holds the value, for env.
	Env string `json:"env,omitempty"`
	// File is the path of the file with the value, for file and age; ~/ is the home directory. For file, only you may read it.
	File string `json:"file,omitempty"`
	// Identity is the path of a file with identities of age that only you may read.
	Identity string `json:"identity,omitempty"`
	// Command is the program that prints the value on one line, with its arguments, for helper. It gets the request as JSON.
	Command []string `json:"command,omitempty"`
	// Forge names the code host whose GitHub App makes a token of an hour for each lease, for app.
	Forge string `json:"forge,omitempty"`
	// Permissions of that token, such as contents = "write"; by default contents = "read". It is for the repositories of the code host.
	Permissions map[string]string `json:"permissions,omitempty"`
	// Variable is the environment variable in which calls get the value; by default the name in upper case.
	Variable string `json:"variable,omitempty"`
	// Skills lists the skills that get the value when their env_allow names the variable: exec.run and agent.run by default.
	Skills []string `json:"skills,omitempty"`
	// TTL is the longest time for which a lease holds; 10 minutes by default, at most a day.
	TTL Duration `json:"ttl,omitempty"`
	// Uses is how many calls one lease serves; 1 by default.
	Uses int `json:"uses,omitempty"`
}

// SecretProvider names where the value of a secret comes from.
type SecretProvider string

// SecretProviders are the values of SecretProvider.
func SecretProviders() []string { return []string{"env", "file", "age", "helper", "app"} }

// SecretSkills are the skills that can get secrets.
func SecretSkills() []string { return []string{"agent.run", "exec.run"} }

// VariableOf returns the variable in which calls get the secret of a name.
func (s Secret) VariableOf(name string) string {
	if s.Variable != "" {
		return s.Variable
	}
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(name))
}

func checkSecrets(s Settings) (found []Finding) {
	variables := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		c := s.Secrets[name]
		found = append(found, checkSecret("secrets."+name, name, c)...)
		if c.Provider == "app" && c.Forge != "" && s.Forges[c.Forge].AppID == 0 {
			found = append(found, Finding{Code: CodeValue, Key: "secrets." + name + ".forge", Message: "the settings have no code host of that name with a GitHub App", Hint: "set app_id, installation_id and app_key_file in [forges." + c.Forge + "]"})
		}
		if other := variables[c.VariableOf(name)]; other != "" {
			found = append(found, Finding{Code: CodeValue, Key: "secrets." + name + ".variable", Message: "the secret " + other + " has the same variable", Hint: "set variable"})
		}
		variables[c.VariableOf(name)] = name
	}
	return found
}

func checkSecret(at, name string, s Secret) (found []Finding) {
	bad := func(key, message, hint string) {
		found = append(found, Finding{Code: CodeValue, Key: joinKey(at, key), Message: message, Hint: hint})
	}
	if !channelName().MatchString(name) {
		found = append(found, Finding{Code: CodeValue, Key: at, Message: "it is not the name of a secret", Hint: "letters, digits, dots, hyphens and underscores, such as npm"})
	}
	if !slices.Contains(SecretProviders(), string(s.Provider)) {
		bad("provider", "the provider is missing or not known", "one of "+strings.Join(SecretProviders(), ", "))
		return found
	}
	given := map[string]bool{"env": s.Env != "", "file": s.File != "", "identity": s.Identity != "", "command": len(s.Command) > 0, "forge": s.Forge != ""}
	needed := map[SecretProvider][]string{"env": {"env"}, "file": {"file"}, "age": {"file", "identity"}, "helper": {"command"}, "app": {"forge"}}[s.Provider]
	for _, key := range slices.Sorted(maps.Keys(given)) {
		switch {
		case given[key] && !slices.Contains(needed, key):
			bad(key, "the provider "+string(s.Provider)+" does not use it", "leave it out")
		case !given[key] && slices.Contains(needed, key):
			bad(key, "the provider "+string(s.Provider)+" needs it", "")
		}
	}
	if len(s.Permissions) > 0 && s.Provider != "app" {
		bad("permissions", "the provider "+string(s.Provider)+" does not use it", "leave it out")
	}
	if s.Env != "" && (!variable().MatchString(s.Env) || len(s.Env) >= 20 && tokenLike().MatchString(s.Env)) {
		found = append(found, Finding{Code: CodeSecret, Key: joinKey(at, "env"), Message: "it looks like a secret, not like the name of a variable", Hint: "env names an environment variable"})
	}
	program := ""
	if len(s.Command) > 0 {
		program = s.Command[0]
	}
	for key, path := range map[string]string{"file": s.File, "identity": s.Identity, "command": program} {
		if path != "" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
			bad(key, "it is not an absolute path", "begin it with / or ~/")
		}
	}
	if v := s.VariableOf(name); !variable().MatchString(v) || strings.HasPrefix(v, "LATTICE_") {
		bad("variable", "it is not the name of a variable that a call can get", "letters, digits and underscores, without LATTICE_ at the beginning")
	}
	for _, skill := range s.Skills {
		if !slices.Contains(SecretSkills(), skill) {
			bad("skills", "there is no skill of that name that can get secrets", "one of "+strings.Join(SecretSkills(), ", "))
		}
	}
	if time.Duration(s.TTL) > 24*time.Hour {
		bad("ttl", "a lease holds for a day at most", "")
	}
	if s.Uses < 0 || s.Uses > 1000 {
		bad("uses", "a lease serves 1 to 1000 calls", "")
	}
	return found
}
