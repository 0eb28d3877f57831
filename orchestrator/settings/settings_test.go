package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const whole = `# everything
spritekit = "~/bin/spritekit"
tools = ["/opt/go", "~/sdk"]
log_level = "debug"
min_isolation = "namespaces"

[run]
allow = ["fs:read", "test:run"]
agent_env = ["ANTHROPIC_API_KEY"]
keep = true

[sprites]
url = "https://api.sprites.dev"
token_env = "SPRITES_TOKEN_OF_MINE"

[git]
name = "A Person"
email = "person@example.com"

[serve]
idle = "1h30m"

[models.SMALL_EXEC]
provider = "openai"
model = "small"
base_url = "http://127.0.0.1:8080/v1"
no_temperature = true
timeout = "30s"

[models.MEDIUM_PLAN]
provider = "anthropic"
model = "middling"
key_env = "ANTHROPIC_API_KEY"
input_usd = 3
output_usd = 15.5
structured = "none"

[llm]
order = ["SMALL_EXEC", "MEDIUM_PLAN"]
requests_per_minute = 30
`

func TestParse(t *testing.T) {
	t.Parallel()
	got, findings := Parse([]byte(whole))
	want := Settings{
		Spritekit: "~/bin/spritekit", Tools: []string{"/opt/go", "~/sdk"}, LogLevel: "debug", MinIsolation: Namespaces,
		Run:     Run{Allow: []string{"fs:read", "test:run"}, AgentEnv: []string{"ANTHROPIC_API_KEY"}, Keep: true},
		Sprites: Sprites{URL: "https://api.sprites.dev", TokenEnv: "SPRITES_TOKEN_OF_MINE"},
		Git:     Git{Name: "A Person", Email: "person@example.com"},
		Serve:   Serve{Idle: Duration(90 * time.Minute)},
		Models: map[string]Model{
			"SMALL_EXEC":  {Provider: "openai", Model: "small", BaseURL: "http://127.0.0.1:8080/v1", NoTemperature: true, Timeout: Duration(30 * time.Second)},
			"MEDIUM_PLAN": {Provider: "anthropic", Model: "middling", KeyEnv: "ANTHROPIC_API_KEY", InputUSD: new(3.0), OutputUSD: new(15.5), Structured: "none"},
		},
		LLM: LLM{Order: []string{"SMALL_EXEC", "MEDIUM_PLAN"}, RequestsPerMinute: 30},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(findings) > 0 {
		t.Errorf("Parse = %v\n%s", findings, diff)
	}
	if got, findings := Parse(nil); findings != nil || !cmp.Equal(got, Settings{}) {
		t.Errorf("an empty file = %+v, %v", got, findings)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string // code, text and hint of each finding
	}{
		"no TOML":                    {"a = = 1", []string{"settings_syntax line 1"}},
		"unknown key":                {"\nspritkit = \"/x\"", []string{"settings_unknown_key line 2: spritkit: there is no such setting (did you mean spritekit?)"}},
		"unknown in table":           {"[run]\nalow = []", []string{"settings_unknown_key line 2: run.alow: there is no such setting (did you mean run.allow?)"}},
		"a key in the file":          {"[models.A]\nprovider = \"openai\"\nmodel = \"m\"\nkey = \"sk-1\"", []string{"settings_secret line 4: models.A.key: settings hold no credentials, only where they are (key_env names"}},
		"a key as a name":            {"[models.A]\nprovider = \"openai\"\nmodel = \"m\"\nkey_env = \"sk-abc\"", []string{"settings_secret line 4: models.A.key_env: it looks like a key"}},
		"a class in letters":         {"[models.small]\nprovider = \"openai\"\nmodel = \"m\"", []string{"settings_value line 1: models.small: \"small\" is no name of a model class"}},
		"no provider":                {"[models.A]\nmodel = \"m\"", []string{"settings_value models.A.provider: there is no provider"}},
		"a key in the open":          {"[models.A]\nprovider = \"openai\"\nmodel = \"m\"\nkey_env = \"K\"\nbase_url = \"http://example.com/v1\"", []string{"settings_value line 5: models.A.base_url: the key would travel in the open"}},
		"an App that is not there":   {"[secrets.gh]\nprovider = \"app\"\nforge = \"main\"", []string{"settings_value line 3: secrets.gh.forge: the settings have no code host of that name with a GitHub App"}},
		"permissions of a file":      {"[secrets.gh]\nprovider = \"file\"\nfile = \"/x\"\npermissions = { contents = \"read\" }", []string{"settings_value line 4: secrets.gh.permissions: the provider file does not use it"}},
		"a price in letters":         {"[models.A]\nprovider = \"openai\"\nmodel = \"m\"\ninput_usd = \"1\"", []string{"settings_type line 4: models.A.input_usd: it must be a number, not text"}},
		"an order of others":         {"[llm]\norder = [\"B\"]", []string{"settings_value line 2: llm.order: there is no model class \"B\""}},
		"a negative number of turns": {"[run]\nkeep_turns = -1", []string{"settings_value line 2: run.keep_turns: -1 is less than 0"}},
		"ports in letters":           {"host_ports = [\"80\"]", []string{"settings_type line 1: host_ports: it must be a list of whole numbers, not such a list"}},
		"unknown table":              {"[colour]\nx = 1", []string{"settings_unknown_key line 1: colour: there is no such setting (known here: "}},
		"dotted key":                 {"run.keep = 1", []string{"settings_type line 1: run.keep: it must be true or false, not a number"}},
		"table for text":             {"[spritekit]\nx = 1", []string{"settings_type line 1: spritekit: it must be text in quotes, not a table"}},
		"text for table":             {"run = \"x\"", []string{"settings_type line 1: run: it must be a table, not text"}},
		"mixed list":                 {"tools = [\"/a\", 1]", []string{"settings_type line 1: tools: it must be a list of texts, not such a list"}},
		"a date":                     {"spritekit = 2026-01-02", []string{"settings_type line 1: spritekit: it must be text in quotes, not a date"}},
		"duration":                   {"[serve]\nidle = \"soon\"", []string{`settings_value line 2: serve.idle: "soon" is no length of time`}},
		"negative duration":          {"[serve]\nidle = \"-1s\"", []string{"settings_value line 2: serve.idle: -1s is not longer than nothing"}},
		"number for it":              {"[serve]\nidle = 300", []string{"settings_type line 2: serve.idle: it must be text in quotes, not a number"}},
		"no permission":              {"[run]\nallow = []", []string{`settings_value line 2: run.allow: the list names no permission (name what runs may do`}},
		"permission":                 {"[run]\nallow = [\"fs:raed\"]", []string{`settings_value line 2: run.allow: there is no permission "fs:raed" (known: `}},
		"variable":                   {"[run]\nagent_env = [\"sk-ant-0123456789\"]", []string{`settings_value line 2: run.agent_env: "sk-a…" cannot be passed to an agent`}},
		"reserved variable":          {"[run]\nagent_env = [\"LATTICE_X\"]", []string{"settings_value line 2: run.agent_env"}},
		"level":                      {"log_level = \"loud\"", []string{`settings_value line 1: log_level: "loud" is not known (one of trace`}},
		"isolation":                  {"min_isolation = \"vm\"", []string{`settings_value line 1: min_isolation: "vm" is not known (one of process, process-tree, namespaces, ns-user, ns-root`}},
		"relative path":              {"tools = [\"go\"]", []string{`settings_value line 1: tools: "go" is no absolute path`}},
		"literal token":              {"[sprites]\nurl = \"https://a.b\"\ntoken = \"abc\"", []string{"settings_secret line 3: sprites.token: settings hold no credentials, only where they are (token_env names"}},
		"token as variable":          {"[sprites]\nurl = \"https://a.b\"\ntoken_env = \"org/4711/abc==\"", []string{"settings_secret line 3: sprites.token_env: it looks like a token"}},
		"token as file":              {"[sprites]\nurl = \"https://a.b\"\ntoken_file = \"sp0123456789012345678901234\"", []string{"settings_secret line 3: sprites.token_file: it looks like a token"}},
		"two tokens":                 {"[sprites]\nurl = \"https://a.b\"\ntoken_env = \"T\"\ntoken_file = \"/t\"", []string{"settings_value line 4: sprites.token_file: token_env and token_file are both set"}},
		"token without URL":          {"[sprites]\ntoken_env = \"T\"", []string{"settings_value sprites.url: there is a token and no URL"}},
		"URL":                        {"[sprites]\nurl = \"sprites.dev\"", []string{"settings_value line 2: sprites.url: it is no http or https URL"}},
		"URL with password":          {"[sprites]\nurl = \"https://u:p@a.b\"", []string{"settings_secret line 2: sprites.url: the URL holds credentials"}},
		"name alone":                 {"[git]\nname = \"A\"", []string{"settings_value line 1: git: name and email belong together"}},
		"no address":                 {"[git]\nname = \"A\"\nemail = \"a\"", []string{`settings_value line 3: git.email: "a" is no address`}},
		"all at once": {"keep = true\ntools = 1\n[run]\nkeep = \"yes\"\n[serve]\nidle = \"x\"", []string{
			"settings_unknown_key line 1: keep", "settings_type line 2: tools", "settings_type line 4: run.keep", "settings_value line 6: serve.idle",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, findings := Parse([]byte(tt.text))
			if !cmp.Equal(got, Settings{}) || len(findings) != len(tt.want) {
				t.Fatalf("Parse = %+v, %+v, want %d findings and no settings", got, findings, len(tt.want))
			}
			for i, f := range findings {
				if text := f.Code + " " + f.Text() + " (" + f.Hint + ")"; !strings.HasPrefix(text, tt.want[i]) {
					t.Errorf("finding %d = %s\nwant %s", i, text, tt.want[i])
				}
			}
		})
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"512": 512, "512B": 512, "512m": 512 << 20, "2G": 2 << 30, "2GiB": 2 << 30, "2Gi": 2 << 30, "1T": 1 << 40, "4194304T": 1 << 62,
		"": 0, "G": 0, "0": 0, "-1": 0, "512I": 0, "512iB": 0, "1.5G": 0, "2 G": 0, "2KM": 0, "4194305T": 0,
	} {
		var got Size
		if err := got.UnmarshalText([]byte(text)); got != want || (err == nil) != (want > 0) {
			t.Errorf("the size %q = %d, %v, want %d", text, got, err, want)
		}
	}
}

// A secret that stands in the wrong place is not printed by the refusal.
func TestFindingsShowNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "sk-ant-api03-0123456789abcdef"
	for _, text := range []string{
		"[sprites]\nurl = \"https://a.b\"\ntoken = \"" + secret + "\"", "[sprites]\nurl = \"https://a.b\"\ntoken_env = \"" + secret + "\"",
		"[run]\nagent_env = [\"" + secret + "\"]", "[sprites]\nurl = \"https://u:" + secret + "@a.b\"", "[sprites]\nurl = \"https://a.b\"\ntoken_file = \"" + secret + "\"",
	} {
		_, findings := Parse([]byte(text))
		if len(findings) == 0 {
			t.Errorf("Parse(%q) has no findings", text)
		}
		for _, f := range findings {
			if strings.Contains(f.Text()+f.Hint, "0123456789") {
				t.Errorf("Parse(%q) shows the secret: %s", text, f.Text())
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("[a\n"))
	f.Add([]byte("[[run]]\nkeep = 1\n"))
	f.Add([]byte("[a.b]\n\"c.d\" = {e = [1, 2]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, findings := Parse(text)
		if len(findings) > 0 && !cmp.Equal(s, Settings{}) {
			t.Errorf("Parse gives settings beside %v", findings)
		}
	})
}
