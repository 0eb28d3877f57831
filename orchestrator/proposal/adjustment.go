package proposal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Adjustment is one change of the environment, decoded from the details of a proposal. Its fields are closed: programs
// are argument vectors, never text for a shell, and names have a fixed shape. Which fields are set depends on Type.
type Adjustment struct {
	Type     string   `json:"type"`
	Runtime  string   `json:"runtime,omitempty"`  // runtime_install, runtime_version_adjust
	Version  string   `json:"version,omitempty"`  // such as 20 or 3.12; "" is any
	Manager  string   `json:"to,omitempty"`       // dependency_manager_switch
	From     string   `json:"from,omitempty"`     // dependency_manager_switch
	Argv     []string `json:"argv,omitempty"`     // add_preinstall_step, adjust_smoke_command
	Cwd      string   `json:"cwd,omitempty"`      // relative to the repository
	Packages []string `json:"packages,omitempty"` // add_system_package
	Domains  []string `json:"domains,omitempty"`  // enable_network_access
	Question string   `json:"question,omitempty"` // escalate_to_human
}

// Limits of an adjustment.
const (
	maxArgv     = 64
	maxArgument = 4 << 10 // bytes
	maxPackages = 32
	maxDomains  = 32
	maxQuestion = 2 << 10 // bytes
)

var (
	versionPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){0,2}$`) })
	packagePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{1,63}$`) })
	domainPattern  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$`)
	})
)

// runtimes are the packages of Debian that hold a runtime, and the program that tells its version.
var runtimes = map[string]struct {
	packages []string
	program  string
	argument string
}{
	"deno":   {nil, "deno", "--version"},
	"go":     {[]string{"golang-go"}, "go", "version"},
	"java":   {[]string{"default-jdk-headless"}, "java", "-version"},
	"node":   {[]string{"nodejs", "npm"}, "node", "--version"},
	"perl":   {[]string{"perl"}, "perl", "-v"},
	"php":    {[]string{"php-cli"}, "php", "--version"},
	"python": {[]string{"python3", "python3-pip", "python3-venv"}, "python3", "--version"},
	"ruby":   {[]string{"ruby", "bundler"}, "ruby", "--version"},
	"rust":   {[]string{"rustc", "cargo"}, "rustc", "--version"},
}

// managers are the ways to install a dependency manager: packages of Debian, or else a command.
var managers = map[string]struct{ packages, argv []string }{
	"npm":    {packages: []string{"npm"}},
	"pnpm":   {argv: []string{"sudo", "npm", "install", "--global", "pnpm"}},
	"yarn":   {argv: []string{"sudo", "npm", "install", "--global", "yarn"}},
	"pip":    {packages: []string{"python3-pip"}},
	"pipenv": {argv: []string{"sudo", "python3", "-m", "pip", "install", "--break-system-packages", "pipenv"}},
	"poetry": {argv: []string{"sudo", "python3", "-m", "pip", "install", "--break-system-packages", "poetry"}},
	"uv":     {argv: []string{"sudo", "python3", "-m", "pip", "install", "--break-system-packages", "uv"}},
}

// members lists the details that each type has, those marked with ! are required.
var members = map[string][]string{
	protocol.AdjustRuntimeInstall:          {"!runtime", "version"},
	protocol.AdjustRuntimeVersion:          {"!runtime", "!version"},
	protocol.AdjustDependencyManagerSwitch: {"from", "!to"},
	protocol.AdjustAddPreinstallStep:       {"!argv", "cwd"},
	protocol.AdjustSmokeCommand:            {"!argv", "cwd"},
	protocol.AdjustAddSystemPackage:        {"!packages"},
	protocol.AdjustEnableNetworkAccess:     {"!domains"},
	protocol.AdjustEscalateToHuman:         {"!question"},
}

// Parse decodes the details of a suggested adjustment strictly. The error names the member that is wrong.
func Parse(s protocol.SuggestedAdjustment) (Adjustment, error) {
	known, ok := members[s.Type]
	if !ok {
		return Adjustment{}, fmt.Errorf("the adjustment type %.40q is not known", s.Type)
	}
	var details map[string]json.RawMessage
	if err := json.Unmarshal(s.Details, &details); err != nil || details == nil {
		return Adjustment{}, fmt.Errorf("details: not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(details)) {
		if !slices.Contains(known, name) && !slices.Contains(known, "!"+name) {
			return Adjustment{}, fmt.Errorf("details/%.40s: %s has no such member; it has %s", name, s.Type, strings.ReplaceAll(strings.Join(known, ", "), "!", ""))
		}
	}
	for _, name := range known {
		if name, required := strings.CutPrefix(name, "!"); required && details[name] == nil {
			return Adjustment{}, fmt.Errorf("details/%s: missing", name)
		}
	}
	a := Adjustment{}
	decoder := json.NewDecoder(bytes.NewReader(s.Details))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		return Adjustment{}, fmt.Errorf("details: %w", err)
	}
	a.Type = s.Type
	return a, a.checkValues()
}

// checkValues refuses values of the right type that are not allowed.
func (a Adjustment) checkValues() error {
	switch a.Type {
	case protocol.AdjustRuntimeInstall, protocol.AdjustRuntimeVersion:
		if _, ok := runtimes[a.Runtime]; !ok {
			return fmt.Errorf("details/runtime: %.40q is not one of %s", a.Runtime, strings.Join(slices.Sorted(maps.Keys(runtimes)), ", "))
		}
		if a.Version != "" && !versionPattern().MatchString(a.Version) {
			return fmt.Errorf("details/version: %.40q is not a version such as 20 or 3.12", a.Version)
		}
	case protocol.AdjustDependencyManagerSwitch:
		if _, ok := managers[a.Manager]; !ok {
			return fmt.Errorf("details/to: %.40q is not one of %s", a.Manager, strings.Join(slices.Sorted(maps.Keys(managers)), ", "))
		}
	case protocol.AdjustAddPreinstallStep, protocol.AdjustSmokeCommand:
		return checkCommand(a.Argv, a.Cwd)
	case protocol.AdjustAddSystemPackage:
		return checkNames("packages", a.Packages, maxPackages, packagePattern())
	case protocol.AdjustEnableNetworkAccess:
		return checkNames("domains", a.Domains, maxDomains, domainPattern())
	case protocol.AdjustEscalateToHuman:
		if strings.TrimSpace(a.Question) == "" || len(a.Question) > maxQuestion {
			return fmt.Errorf("details/question: empty, or longer than %d bytes", maxQuestion)
		}
	}
	return nil
}

func checkNames(member string, names []string, limit int, pattern *regexp.Regexp) error {
	if len(names) == 0 || len(names) > limit {
		return fmt.Errorf("details/%s: %d names; 1 to %d are allowed", member, len(names), limit)
	}
	for i, name := range names {
		if !pattern.MatchString(name) {
			return fmt.Errorf("details/%s/%d: %.80q is not a name", member, i, name)
		}
	}
	return nil
}

// wrappers run other programs or text, and hide from a reader which.
var wrappers = []string{"busybox", "doas", "env", "eval", "nohup", "setsid", "su", "sudo", "timeout", "xargs"}

// interpreters run a file, or text after a flag.
var interpreters = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(a|ba|da|z|k)?sh$|^fish$|^(python|perl|ruby|node|deno|bun|php|lua|awk|tclsh)[0-9.]*$`)
})

// checkCommand refuses a command that is not one program with its arguments: a shell or a wrapper would run text that was
// not judged, and a path outside the repository is not the repository's.
func checkCommand(argv []string, cwd string) error {
	if len(argv) == 0 || len(argv) > maxArgv {
		return fmt.Errorf("details/argv: %d arguments; 1 to %d are allowed", len(argv), maxArgv)
	}
	for i, argument := range argv {
		if len(argument) > maxArgument || strings.ContainsAny(argument, "\x00\n\r") {
			return fmt.Errorf("details/argv/%d: longer than %d bytes, or it holds a line end or NUL", i, maxArgument)
		}
	}
	name := path.Base(argv[0])
	if argv[0] == "" || slices.Contains(wrappers, name) || interpreters().MatchString(name) && !runsFile(name, argv) {
		return fmt.Errorf("details/argv/0: %.40q runs other text; name the program itself, or a file of the repository", argv[0])
	}
	if !isLocal(cwd) {
		return fmt.Errorf("details/cwd: %.80q leaves the repository", cwd)
	}
	return nil
}

// runsFile reports whether an interpreter is given a file of the repository or, for Python, a module to run.
func runsFile(name string, argv []string) bool {
	if len(argv) < 2 {
		return false
	}
	if strings.HasPrefix(name, "python") && argv[1] == "-m" {
		return true
	}
	return !strings.HasPrefix(argv[1], "-") && name != "awk" && isLocal(argv[1])
}

// isLocal reports whether a path is relative and stays in its folder.
func isLocal(p string) bool {
	return p == "" || filepath.IsLocal(p)
}

// NeedsApproval reports whether a person must approve the adjustment in the scope, even after a verification.
func (a Adjustment) NeedsApproval(scope string) bool {
	switch a.Type {
	case protocol.AdjustAddSystemPackage, protocol.AdjustEnableNetworkAccess, protocol.AdjustEscalateToHuman:
		return true
	}
	return scope != protocol.ScopeRepoSpecific
}

// NeedsVerification reports whether the adjustment changes runs, and so has to prove itself in a fresh sprite.
func (a Adjustment) NeedsVerification() bool { return a.Type != protocol.AdjustEscalateToHuman }

// String describes the adjustment in a line for people.
func (a Adjustment) String() string {
	switch a.Type {
	case protocol.AdjustRuntimeInstall, protocol.AdjustRuntimeVersion:
		return strings.TrimSpace("install " + a.Runtime + " " + a.Version)
	case protocol.AdjustDependencyManagerSwitch:
		if a.From != "" {
			return "use " + a.Manager + " instead of " + a.From
		}
		return "use " + a.Manager
	case protocol.AdjustAddPreinstallStep:
		return "run before the rest: " + quoteCommand(a.Argv)
	case protocol.AdjustSmokeCommand:
		return "test with: " + quoteCommand(a.Argv)
	case protocol.AdjustAddSystemPackage:
		return "install the packages " + strings.Join(a.Packages, " ")
	case protocol.AdjustEnableNetworkAccess:
		return "let the sprite reach " + strings.Join(a.Domains, " ")
	}
	return "ask a person: " + a.Question
}

// quoteCommand returns a command as a person would type it.
func quoteCommand(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		if a == "" || strings.ContainsAny(a, " \t'\"\\$`&|;<>()*?[]#~!{}") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out[i] = a
	}
	return strings.Join(out, " ")
}
