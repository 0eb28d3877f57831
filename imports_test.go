// Package lattice_test holds the laws of the house, as tests: who may import whom (this file), what every package
// says of itself and never does (pkgdoc_test.go), what documents and comments refer to (docs_test.go), and what the
// binaries are made of (binaries_test.go). A new edge is a line here, with its reason.
package lattice_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/spritekit/lattice"

// mayImport lists, for each package, the packages of this module that it may name in an import. A trailing /... stands
// for a whole tree. Packages that are not listed do not belong here yet.
var mayImport = map[string][]string{
	"manifests": {},
	// Prompts, and the answers that they want.
	"manifests/templates": {},
	"manifests/schemas":   {},
	"manifests/steps":     {},

	// The sprite's side, top to bottom.
	"spritekit":       {"manifests", "skills", "skills/extra", "skills/proc", "spritekit/..."}, // proc: what a session's programs are told to do
	"spritekit/extra": {"manifests", "skills", "skills/agent", "skills/agent/answer", "skills/agent/schema", "skills/git/delegate", "skills/git/native", "skills/web", "skills/web/page", "spritekit/..."},
	"spritekit/cli":   {"spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"skills":          {"manifests", "skills/...", "spritekit/fault", "spritekit/skill"},
	// Families are siblings; proc is the one way to run a program, shared by those that do.
	"skills/*":         {"skills/extra", "skills/proc", "skills/propose", "spritekit/checkpoint", "spritekit/fault", "spritekit/protocol", "spritekit/redact", "spritekit/skill", "spritekit/workspace", "manifests"},
	"spritekit/dropin": {"manifests"},
	// The git verbs choose between two engines, which know the nouns and never each other.
	"skills/git": {"skills/git/...", "skills/proc", "spritekit/fault", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	// What a call names and what a repository holds is checked before an engine sees it.
	"skills/git/guard":     {"skills/git/engine", "skills/git/gitconfig", "skills/git/patch", "spritekit/fault", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	"skills/git/remote":    {"skills/git/engine", "skills/git/guard", "skills/proc", "spritekit/fault", "spritekit/skill"},
	"skills/git/engine":    {"spritekit/fault", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	"skills/git/gitconfig": {},
	"skills/git/patch":     {"skills/unified"},
	// The native engine in a process of its own, both ends of the wire.
	"skills/git/delegate": {"skills/extra", "skills/git/engine", "skills/git/gitconfig", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	"skills/git/native":   {"skills/git/engine", "skills/git/gitconfig", "skills/git/native/gitdir", "skills/git/native/wire", "skills/git/patch", "skills/ignore", "spritekit/fault", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	// The .git folder and the remote, which know neither the index nor a work tree, nor each other.
	"skills/git/native/gitdir": {"skills/git/engine", "skills/git/gitconfig", "spritekit/fault", "spritekit/skill"},
	"skills/git/native/wire":   {"skills/git/engine", "skills/httpenv", "spritekit/fault", "spritekit/skill"},
	"skills/httpenv":           {},

	// The verbs of the system engine, the process that they run, and the files that they read instead of running one.
	"skills/git/system":          {"skills/git/engine", "skills/git/gitcmd", "skills/git/gitconfig", "skills/git/gitfiles", "skills/git/patch", "skills/proc", "spritekit/fault", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	"skills/git/gitcmd":          {"skills/git/engine", "skills/proc", "spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"skills/git/gitfiles":        {"skills/git/engine"},
	"skills/test":                {"skills/proc", "skills/test/results", "skills/test/results/export", "spritekit/fault", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	"skills/test/results":        {},
	"skills/test/results/export": {"skills/test/results"},
	// What git ignores is shared by those that walk trees.
	"skills/ignore": {},
	// Unified diffs are read by one parser, here and in the orchestrator: what one reader checks, another must not read otherwise.
	// Skills that call skills of other families get those by name.
	"skills/docs":              {"skills/unified", "spritekit/skill"},
	"skills/web":               {"skills/extra", "skills/web/proof", "spritekit/protocol", "spritekit/skill", "spritekit/text"},
	"skills/web/page":          {"skills/httpenv", "skills/web", "spritekit/netrange"},
	"skills/web/proof":         {},
	"skills/verify":            {"skills/ignore", "spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"skills/unified":           {},
	"skills/fs":                {"manifests", "skills/fs/...", "skills/ignore", "skills/unified", "spritekit/fault", "spritekit/protocol", "spritekit/skill", "spritekit/workspace"},
	"skills/fs/grep":           {},
	"skills/fs/walk":           {"skills/ignore", "spritekit/protocol", "spritekit/workspace"},
	"spritekit/install":        {"manifests", "spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"spritekit/export":         {"manifests"},
	"spritekit/mcp":            {"manifests", "spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"spritekit/contract":       {"manifests", "spritekit/protocol"},
	"spritekit/session":        {"spritekit/tracecontext", "manifests", "spritekit/dropin", "spritekit/journal", "spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"spritekit/skilltest":      {"spritekit/contract"},
	"spritekit/skill":          {"manifests", "spritekit/checkpoint", "spritekit/exact", "spritekit/journal", "spritekit/outbox", "spritekit/fault", "spritekit/protocol", "spritekit/resume", "spritekit/workspace"},
	"spritekit/journal":        {"spritekit/protocol", "spritekit/workspace"},
	"spritekit/outbox":         {"spritekit/protocol", "spritekit/workspace"},
	"spritekit/resume":         {"spritekit/protocol", "spritekit/workspace"},
	"spritekit/checkpoint":     {"spritekit/protocol"},
	"spritekit/workspace":      {"spritekit/protocol"},
	"spritekit/fault":          {"spritekit/protocol"},
	"spritekit/protocol":       {"spritekit/protocol/quote"},
	"spritekit/protocol/quote": {},
	"spritekit/durable":        {},
	"spritekit/marked":         {},
	"spritekit/readonly":       {}, // programs that can change few files
	"spritekit/exact":          {}, // names of members in JSON, on both sides of a sprite's wall
	"spritekit/netrange":       {}, // private networks, on both sides of a sprite's wall
	"spritekit/text":           {},
	"docs":                     {},
	// Known secrets in text, on both sides of a sprite's wall.
	"spritekit/redact":       {},
	"spritekit/tracecontext": {},
	// The rules of a loop, which are pure; a skill moves them between inputs and files.
	"spritekit/loop": {},
	"skills/loop":    {"spritekit/fault", "spritekit/loop", "spritekit/skill", "spritekit/text", "spritekit/workspace"},

	"skills/exec":             {"skills/proc", "skills/relay", "spritekit/fault", "spritekit/protocol", "spritekit/redact", "spritekit/skill"},
	"skills/served":           {"manifests", "skills/proc", "skills/relay", "spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"skills/agent/answer":     {"skills/extra", "spritekit/skill"},
	"skills/agent":            {"manifests", "skills/agent/answer", "skills/agent/acp", "skills/agent/adapter", "skills/agent/appserver", "skills/agent/control", "skills/agent/idle", "skills/agent/record", "skills/agent/reset", "skills/agent/scrub", "skills/agent/sessionlog", "skills/agent/tally", "skills/extra", "skills/git/guard", "skills/proc", "skills/propose", "skills/relay", "spritekit/checkpoint", "spritekit/fault", "spritekit/protocol", "spritekit/readonly", "spritekit/redact", "spritekit/skill", "spritekit/workspace"},
	"skills/agent/adapter":    {"skills/proc", "spritekit/fault", "spritekit/protocol", "spritekit/skill"},
	"skills/agent/acp":        {"skills/agent/adapter", "spritekit/protocol"},
	"skills/agent/appserver":  {"skills/agent/acp", "skills/agent/adapter"},
	"skills/agent/control":    {"skills/agent/acp"},
	"skills/agent/idle":       {},
	"skills/agent/record":     {"skills/agent/adapter", "spritekit/text"},
	"skills/agent/reset":      {},
	"skills/agent/schema":     {},
	"skills/agent/scrub":      {"spritekit/redact", "spritekit/workspace"},
	"skills/agent/sessionlog": {"skills/agent/adapter", "spritekit/workspace"},
	"skills/agent/tally":      {"skills/agent/adapter", "spritekit/protocol"},
	// A model server, for tests.
	"skills/agent/agenttest": {},

	// The orchestrator's side, top to bottom. main, the commands and leader compose; what they compose never meets otherwise.
	"orchestrator":         {"orchestrator/program"},
	"orchestrator/program": {"orchestrator/cli", "orchestrator/command/...", "orchestrator/host/sandbox/early", "orchestrator/leader", "orchestrator/leader/home", "orchestrator/setup", "spritekit/protocol"}, // the command lattice, for the main of orchestrator/temporal, too
	"orchestrator/leader":  {"manifests", "orchestrator/...", "spritekit/tracecontext", "spritekit/fault", "spritekit/protocol", "spritekit/redact"},
	// Its parts, top to bottom: what a part holds, it calls; none calls up.
	"orchestrator/leader/disarm":      {"orchestrator/audit", "orchestrator/caller", "orchestrator/engine/driver", "orchestrator/lattice", "orchestrator/store"},
	"orchestrator/leader/access":      {"orchestrator/api/route", "orchestrator/caller", "orchestrator/api", "orchestrator/audit", "orchestrator/store", "spritekit/fault", "spritekit/text"},
	"orchestrator/leader/credentials": {"orchestrator/api", "orchestrator/audit", "orchestrator/engine/driver", "orchestrator/lattice", "orchestrator/secret", "orchestrator/store", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/spending":    {"spritekit/tracecontext", "spritekit/text", "orchestrator/leader/drive", "orchestrator/leader/govern", "orchestrator/leader/history", "orchestrator/api", "orchestrator/audit", "orchestrator/budget", "orchestrator/engine/driver", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/policy", "orchestrator/store", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/environment": {"orchestrator/leader/history", "orchestrator/api", "orchestrator/audit", "orchestrator/engine/driver", "orchestrator/lattice", "orchestrator/proposal", "orchestrator/session", "orchestrator/store", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/travel":      {"orchestrator/difference", "orchestrator/audit", "orchestrator/timeline", "orchestrator/leader/...", "orchestrator/action", "orchestrator/api", "orchestrator/engine", "orchestrator/engine/...", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/sprites", "orchestrator/store", "orchestrator/worktree", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/runs":        {"manifests", "orchestrator/caller", "orchestrator/action", "orchestrator/audit", "orchestrator/leader/drive", "orchestrator/leader/govern", "orchestrator/leader/skillset", "orchestrator/leader/history", "orchestrator/leader/home", "orchestrator/leader/prepare", "orchestrator/leader/problem", "orchestrator/leader/retention", "orchestrator/leader/views", "orchestrator/api", "orchestrator/compile", "orchestrator/dropin", "orchestrator/engine", "orchestrator/engine/...", "orchestrator/host", "orchestrator/host/core", "orchestrator/host/sandbox/spec", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/policy", "orchestrator/sprites", "orchestrator/store", "orchestrator/worktree", "orchestrator/worktree/remote", "spritekit/exact", "spritekit/fault", "spritekit/protocol", "orchestrator/memo"},
	"orchestrator/leader/inbox":       {"orchestrator/caller", "orchestrator/api", "orchestrator/audit", "orchestrator/forge", "orchestrator/forge/hook", "orchestrator/leader/govern", "orchestrator/leader/problem", "orchestrator/store", "spritekit/fault"},
	"orchestrator/leader/boards":      {"orchestrator/caller", "orchestrator/api", "orchestrator/api/exchange", "orchestrator/audit", "orchestrator/board", "orchestrator/worker", "spritekit/fault"},                                                                                 // the boards of repositories, for callers
	"orchestrator/leader/flows":       {"manifests", "orchestrator/api", "orchestrator/api/exchange", "orchestrator/audit", "orchestrator/compile", "orchestrator/diagram", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/policy", "spritekit/fault", "spritekit/protocol"}, // flow documents, for callers
	"orchestrator/leader/upkeep":      {"orchestrator/api", "orchestrator/audit", "orchestrator/fleet", "orchestrator/leader/problem", "orchestrator/sprites", "spritekit/fault"},
	"orchestrator/leader/intents":     {"manifests", "orchestrator/ir/expr", "orchestrator/schedule", "orchestrator/leader/govern", "orchestrator/leader/problem", "orchestrator/api", "orchestrator/audit", "orchestrator/intent", "orchestrator/lattice", "orchestrator/policy", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/govern":      {"orchestrator/caller", "orchestrator/attest", "orchestrator/leader/home", "orchestrator/leader/problem", "orchestrator/action", "orchestrator/api", "orchestrator/audit", "orchestrator/forge", "orchestrator/lattice", "orchestrator/policy", "orchestrator/store", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/prepare":     {"orchestrator/leader/skillset", "orchestrator/leader/history", "orchestrator/leader/home", "orchestrator/leader/retention", "orchestrator/api", "orchestrator/host", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/policy", "orchestrator/sprites", "orchestrator/worktree", "orchestrator/worktree/remote", "orchestrator/worktree/gitexec", "spritekit/protocol"},
	"orchestrator/leader/retention":   {"orchestrator/artifact", "orchestrator/artifact/report", "orchestrator/policy", "orchestrator/leader/history", "orchestrator/leader/home", "orchestrator/leader/views", "orchestrator/api", "orchestrator/engine", "orchestrator/engine/...", "orchestrator/lattice", "orchestrator/session", "orchestrator/sprites", "orchestrator/store", "orchestrator/worktree/mirror", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/views":       {"orchestrator/audit", "orchestrator/api/stream", "orchestrator/budget", "orchestrator/artifact", "orchestrator/loop", "orchestrator/leader/drive", "orchestrator/leader/history", "orchestrator/leader/problem", "orchestrator/api", "orchestrator/engine", "orchestrator/engine/...", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/sprites", "orchestrator/store", "spritekit/fault"},
	"orchestrator/leader/drive":       {"manifests", "spritekit/tracecontext", "orchestrator/leader/history", "orchestrator/api", "orchestrator/engine", "orchestrator/engine/...", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/sprites", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/storage":     {"orchestrator/leader/history", "orchestrator/leader/home", "orchestrator/leader/problem", "orchestrator/api", "orchestrator/audit", "orchestrator/budget", "orchestrator/proposal", "orchestrator/secret", "orchestrator/host", "orchestrator/host/records", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/sprites", "orchestrator/store", "spritekit/fault", "orchestrator/store/lead"},
	"orchestrator/leader/skillset":    {"orchestrator/bytecount", "manifests", "orchestrator/leader/home", "orchestrator/dropin", "orchestrator/sprites", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/history":     {"spritekit/tracecontext", "manifests", "orchestrator/leader/home", "orchestrator/api", "orchestrator/engine", "orchestrator/engine/...", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/store", "spritekit/fault", "spritekit/protocol", "orchestrator/memo"},
	"orchestrator/leader/problem":     {"orchestrator/sprites", "orchestrator/store", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/home":        {"spritekit/fault"},
	// What people say at code hosts and what they are shown: dialogue reads, scribe writes, and neither knows the other. gather decides which texts reach an agent.
	"orchestrator/leader/dialogue":          {"manifests", "orchestrator/api", "orchestrator/audit", "orchestrator/caller", "orchestrator/forge", "orchestrator/forge/comment", "orchestrator/forge/hook", "orchestrator/forge/presence", "orchestrator/intent", "orchestrator/lattice", "orchestrator/leader/gather", "orchestrator/leader/govern", "orchestrator/leader/thread", "orchestrator/store", "spritekit/fault"},
	"orchestrator/leader/scribe":            {"orchestrator/api", "orchestrator/audit", "orchestrator/forge", "orchestrator/forge/presence", "orchestrator/intent", "orchestrator/lattice", "orchestrator/leader/govern", "orchestrator/leader/thread", "orchestrator/store", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/leader/gather":            {"orchestrator/forge", "orchestrator/forge/comment", "orchestrator/forge/hook", "orchestrator/leader/thread", "spritekit/fault"},
	"orchestrator/leader/thread":            {"manifests", "orchestrator/api", "orchestrator/audit", "orchestrator/forge", "orchestrator/forge/presence", "orchestrator/intent", "orchestrator/lattice", "orchestrator/leader/govern", "orchestrator/timeline", "spritekit/fault"},
	"orchestrator/leader/thread/threadtest": {"orchestrator/api", "orchestrator/api/exchange", "orchestrator/audit", "orchestrator/caller", "orchestrator/forge", "orchestrator/forge/...", "orchestrator/intent", "orchestrator/lattice", "orchestrator/leader/dialogue", "orchestrator/leader/govern", "orchestrator/leader/inbox", "orchestrator/leader/scribe", "orchestrator/leader/thread", "orchestrator/store", "spritekit/fault"}, // both sides and the inbox behind a code host, for tests
	// Loops: the commands, the start of a run that they share with lattice run, and where a loop stands, by its journal.
	"orchestrator/command/loop": {"orchestrator/...", "skills/unified", "spritekit/fault", "spritekit/loop"}, // unified: how a spec changed
	"orchestrator/launch":       {"orchestrator/api", "orchestrator/cli", "orchestrator/complete", "orchestrator/connect", "orchestrator/equip", "orchestrator/lattice", "orchestrator/setup", "orchestrator/sources", "orchestrator/sprites", "orchestrator/worktree", "orchestrator/worktree/remote", "spritekit/fault"},
	"orchestrator/loop":         {"orchestrator/lattice", "spritekit/loop", "spritekit/protocol"}, // pure

	// One package for each group of commands. They are siblings: what two of them need is in one of the rooms below them.
	"orchestrator/command/run": {"orchestrator/...", "skills/unified", "spritekit/fault", "spritekit/protocol", "spritekit/tracecontext"}, // unified: how much candidates change
	"orchestrator/command/*":   {"docs", "manifests", "orchestrator/...", "spritekit/fault", "spritekit/protocol", "spritekit/tracecontext"},
	"orchestrator/doctor":      {"orchestrator/api", "orchestrator/cli", "orchestrator/equip", "orchestrator/host", "orchestrator/host/core", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/share", "orchestrator/leader/home", "orchestrator/leader/skillset", "orchestrator/leftover", "orchestrator/settings", "orchestrator/setup", "orchestrator/sprites", "orchestrator/store", "orchestrator/toolchain", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/follow":      {"orchestrator/proposal", "orchestrator/action", "orchestrator/api", "orchestrator/cli", "orchestrator/complete", "orchestrator/connect", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/session", "orchestrator/setup", "orchestrator/timeline", "orchestrator/worktree", "orchestrator/worktree/remote", "spritekit/protocol"},
	"orchestrator/connect":     {"orchestrator/compile", "orchestrator/sources", "orchestrator/caller", "orchestrator/api", "orchestrator/cli", "orchestrator/complete", "orchestrator/equip", "orchestrator/fleet", "orchestrator/host/sandbox/spec", "orchestrator/lattice", "orchestrator/leader", "orchestrator/leader/home", "orchestrator/patient", "orchestrator/setup", "orchestrator/sprites", "orchestrator/standby", "orchestrator/store", "orchestrator/trace", "orchestrator/web", "orchestrator/worktree", "orchestrator/worktree/remote", "spritekit/fault", "spritekit/redact", "spritekit/protocol"},
	"orchestrator/standby":     {"orchestrator/api/exchange", "orchestrator/leader/problem", "orchestrator/store", "spritekit/fault"},
	"orchestrator/sources":     {"orchestrator/policy", "manifests", "manifests/templates", "orchestrator/cli", "orchestrator/compile", "orchestrator/complete", "orchestrator/equip", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/ladder", "orchestrator/setup", "spritekit/fault"},
	"orchestrator/equip":       {"manifests", "orchestrator/api", "orchestrator/cli", "orchestrator/complete", "orchestrator/dropin", "orchestrator/host/core", "orchestrator/host/egress", "orchestrator/host/sandbox/spec", "orchestrator/lattice", "orchestrator/leader/home", "orchestrator/leader/skillset", "orchestrator/settings", "orchestrator/setup", "orchestrator/sprites", "orchestrator/toolchain", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/complete":    {"manifests", "orchestrator/api", "orchestrator/cli", "orchestrator/ir", "orchestrator/leader", "orchestrator/leader/home", "orchestrator/setup", "orchestrator/sprites"},
	"orchestrator/setup":       {"orchestrator/board", "orchestrator/board/mirror", "orchestrator/fleet", "orchestrator/forge", "orchestrator/forge/gitea", "orchestrator/forge/github", "orchestrator/forge/publish", "orchestrator/forge/rest", "orchestrator/leader/dialogue", "orchestrator/leader/intents", "orchestrator/schedule", "orchestrator/api", "orchestrator/cli", "orchestrator/engine/driver", "orchestrator/lattice", "orchestrator/leader", "orchestrator/leader/drive", "orchestrator/leader/home", "orchestrator/leader/problem", "orchestrator/llm", "orchestrator/modelroute", "orchestrator/notify", "orchestrator/policy", "orchestrator/secret", "orchestrator/secret/provider", "orchestrator/settings", "orchestrator/sprites", "spritekit/fault", "spritekit/protocol", "spritekit/redact"}, // driver: the log that a test wraps
	"orchestrator/transfer":    {"orchestrator/bytecount", "orchestrator/cli", "orchestrator/sprites"},
	"orchestrator/timeline":    {"orchestrator/difference", "orchestrator/api", "orchestrator/budget", "orchestrator/cli", "orchestrator/ladder", "orchestrator/lattice", "spritekit/protocol"},
	"orchestrator/trace":       {"spritekit/tracecontext", "orchestrator/api", "orchestrator/lattice", "orchestrator/timeline", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/cli":         {"orchestrator/bytecount", "orchestrator/sprites", "spritekit/exact", "spritekit/fault", "spritekit/protocol"}, // sprites: the size of a terminal

	// An agent outside, as a client of the leader.
	"orchestrator/mcp": {"orchestrator/caller", "manifests", "orchestrator/api", "orchestrator/board", "orchestrator/cli", "orchestrator/connect", "orchestrator/equip", "orchestrator/follow", "orchestrator/lattice", "orchestrator/launch", "orchestrator/setup", "orchestrator/sprites", "orchestrator/timeline", "spritekit/fault", "spritekit/mcp", "spritekit/protocol"},

	// A leader over TCP, for callers with tokens.
	"orchestrator/dashboard":       {"orchestrator/api/route", "orchestrator/difference", "orchestrator/artifact", "orchestrator/caller", "orchestrator/loop", "orchestrator/loop/iterations", "spritekit/loop", "spritekit/protocol", "orchestrator/board", "orchestrator/worker", "orchestrator/api", "orchestrator/api/exchange", "orchestrator/audit", "orchestrator/cli", "orchestrator/diagram", "orchestrator/intent", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/proposal", "orchestrator/sprites", "orchestrator/timeline", "spritekit/fault"},
	"orchestrator/web":             {"orchestrator/api/route", "orchestrator/caller", "orchestrator/api", "orchestrator/api/exchange", "orchestrator/dashboard", "orchestrator/lattice", "orchestrator/leader/access", "spritekit/fault"},
	"orchestrator/caller":          {"orchestrator/audit", "spritekit/text"},
	"orchestrator/artifact":        {"orchestrator/artifact/report", "orchestrator/lattice", "spritekit/protocol"}, // declared products of runs, in the registry
	"orchestrator/sse":             {},
	"orchestrator/difference":      {},
	"orchestrator/loop/iterations": {"orchestrator/api", "orchestrator/lattice", "orchestrator/loop", "spritekit/fault", "spritekit/loop", "spritekit/protocol"},
	"orchestrator/api/exchange":    {"orchestrator/lattice", "spritekit/exact", "spritekit/fault", "spritekit/protocol"},
	// Reports of tests are read by one parser, in a sprite and here: it is hardened, and knows how every runner writes them.
	"orchestrator/artifact/report": {"skills/test/results", "spritekit/text"},
	"orchestrator/api/route":       {"orchestrator/api/exchange", "orchestrator/caller", "spritekit/fault"},
	"orchestrator/api/wire":        {"orchestrator/api/exchange", "spritekit/fault"},
	"orchestrator/api":             {"orchestrator/api/route", "orchestrator/api/stream", "orchestrator/api/exchange", "orchestrator/api/wire", "orchestrator/difference", "orchestrator/sse", "orchestrator/fleet", "orchestrator/artifact", "orchestrator/caller", "orchestrator/loop", "orchestrator/board", "orchestrator/worker", "orchestrator/budget", "orchestrator/proposal", "orchestrator/secret", "manifests", "orchestrator/audit", "orchestrator/intent", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/sprites", "spritekit/fault", "spritekit/loop", "spritekit/protocol"}, // sprites: what changed in files
	"orchestrator/api/stream":      {"orchestrator/audit", "orchestrator/lattice", "orchestrator/sse", "spritekit/tracecontext"},

	// Keys of models, kept outside of sprites.
	"orchestrator/modelroute": {},

	"orchestrator/engine": {"manifests", "orchestrator/engine/machine", "orchestrator/engine/runstate", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/ladder", "orchestrator/lattice", "spritekit/protocol"},
	// The machine knows no op, the state no rule; who replays performs nothing.
	"orchestrator/engine/machine":    {"manifests", "orchestrator/engine/runstate", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "spritekit/protocol"},
	"orchestrator/engine/runstate":   {"manifests", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/ladder", "orchestrator/lattice"},
	"orchestrator/engine/replay":     {"manifests", "orchestrator/engine", "orchestrator/engine/runstate", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "spritekit/protocol"},
	"orchestrator/engine/enginetest": {"manifests", "orchestrator/engine/driver", "orchestrator/engine/replay", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/store", "spritekit/protocol"}, // runs of flows, for tests of drivers
	"orchestrator/engine/driver":     {"orchestrator/engine", "orchestrator/engine/machine", "orchestrator/engine/replay", "orchestrator/engine/runstate", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "spritekit/protocol"},
	"orchestrator/llm":               {"manifests", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "spritekit/fault", "spritekit/protocol", "spritekit/redact"},
	// A model server, for tests.
	"orchestrator/llm/llmtest": {},
	// And a real one, of 260,000 weights.
	"orchestrator/llm/llmtest/stories": {},
	// What is decided about answers of models: pure, below the engine.
	"orchestrator/memo":             {}, // results of pure functions
	"orchestrator/ladder":           {"manifests/templates", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/memo"},
	"orchestrator/compile":          {"manifests", "manifests/schemas", "manifests/steps", "manifests/templates", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/ladder", "orchestrator/lattice", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/compile/flowline": {"manifests", "orchestrator/compile", "orchestrator/ir", "orchestrator/ir/..."},

	"orchestrator/diagram": {"orchestrator/ir", "orchestrator/ir/..."},

	"orchestrator/proposal": {"manifests", "orchestrator/ir", "orchestrator/ir/...", "spritekit/protocol"}, // changes of the environment: pure

	"orchestrator/action":          {"manifests", "orchestrator/forge", "orchestrator/lattice", "orchestrator/policy", "orchestrator/secret", "orchestrator/worktree", "orchestrator/worktree/remote", "orchestrator/worktree/gitexec", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/notify":          {"spritekit/fault", "spritekit/protocol"},
	"orchestrator/forge":           {},                                                                           // code hosts: types, and the calls that adapters make
	"orchestrator/forge/hook":      {"orchestrator/forge", "spritekit/fault"},                                    // deliveries of webhooks: pure
	"orchestrator/forge/comment":   {"manifests", "orchestrator/forge"},                                          // commands in comments: pure
	"orchestrator/forge/presence":  {"orchestrator/forge", "orchestrator/forge/comment", "orchestrator/lattice"}, // comments that show a run: pure
	"orchestrator/forge/rest":      {"orchestrator/forge", "spritekit/text"},
	"orchestrator/forge/github":    {"orchestrator/forge", "orchestrator/forge/rest"},
	"orchestrator/forge/gitea":     {"orchestrator/forge", "orchestrator/forge/rest"},
	"orchestrator/forge/publish":   {"orchestrator/forge", "orchestrator/forge/rest"},                                                                                // effects at code hosts, each once
	"orchestrator/forge/forgetest": {"orchestrator/forge"},                                                                                                           // a code host for tests
	"orchestrator/budget":          {},                                                                                                                               // money, tokens and time against limits: pure
	"orchestrator/policy":          {"manifests", "orchestrator/audit", "orchestrator/budget", "orchestrator/lattice", "orchestrator/tomlkey", "spritekit/protocol"}, // decides about actions, intents and files: pure
	"orchestrator/secret":          {"spritekit/redact"},                                                                                                             // credentials in what leaves a sprite, and leases: pure
	"orchestrator/secret/provider": {"orchestrator/secret"},
	"orchestrator/session":         {"spritekit/tracecontext", "manifests", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/sprites", "spritekit/fault", "spritekit/protocol", "spritekit/redact"},
	"orchestrator/intent":          {"orchestrator/audit", "orchestrator/lattice"},              // the states of an intent: pure
	"orchestrator/attest":          {"manifests", "orchestrator/lattice", "spritekit/protocol"}, // signed statements about verified commits
	"orchestrator/audit":           {},                                                          // the record of decisions and effects: pure
	"orchestrator/store":           {"orchestrator/audit", "orchestrator/boltfile", "orchestrator/lattice", "orchestrator/store/bolt", "orchestrator/store/commit", "orchestrator/store/kv", "orchestrator/store/postgres", "spritekit/protocol"},
	"orchestrator/store/lead":      {"orchestrator/store", "orchestrator/store/kv"},      // for schedulers outside of the store
	"orchestrator/store/kv":        {},                                                   // the seam between the store and its drivers
	"orchestrator/store/commit":    {"orchestrator/store/bolt", "orchestrator/store/kv"}, // groups of writes; bolt: which errors of files mean that the disk is full
	"orchestrator/store/bolt":      {"orchestrator/boltfile", "orchestrator/store/kv"},
	"orchestrator/store/postgres":  {"orchestrator/store/kv"},

	"orchestrator/store/postgres/postgrestest": {}, // a server for tests

	"orchestrator/reconcile": {"spritekit/fault", "spritekit/protocol"}, // for lattice protocol reconcile: a filter, no part of a run

	"orchestrator/boltfile":         {},
	"orchestrator/patient":          {},
	"orchestrator/lattice":          {"manifests", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/settings":         {"manifests", "orchestrator/schedule", "orchestrator/tomlkey"},
	"orchestrator/bytecount":        {},                                                                                                                                    // bytes of streams, for progress
	"orchestrator/tomlkey":          {},                                                                                                                                    // lines of keys, for errors: pure
	"orchestrator/schedule":         {},                                                                                                                                    // times of cron: pure
	"orchestrator/board":            {"spritekit/exact", "spritekit/fault", "spritekit/protocol"},                                                                          // tasks in files; it knows neither runs nor the leader
	"orchestrator/board/mirror":     {"orchestrator/board", "orchestrator/forge", "orchestrator/forge/publish", "spritekit/fault"},                                         // issues of a code host as tasks
	"orchestrator/worker":           {"orchestrator/board", "orchestrator/lattice", "orchestrator/schedule", "orchestrator/tomlkey", "spritekit/fault"},                    // definitions and triggers; it starts nothing
	"orchestrator/checkout":         {"orchestrator/board", "spritekit/readonly"},                                                                                          // commands of workers in git worktrees of this machine
	"orchestrator/leftover":         {"orchestrator/api", "orchestrator/board", "orchestrator/checkout", "orchestrator/lattice", "orchestrator/worker", "spritekit/fault"}, // what killed programs left, and its repair
	"orchestrator/fleet":            {"orchestrator/settings", "orchestrator/sprites"},                                                                                     // declared and observed sprites, and the changes between: pure
	"orchestrator/ir":               {"manifests", "manifests/schemas", "manifests/templates", "orchestrator/ir/expr", "orchestrator/ir/finding"},
	"orchestrator/ir/finding":       {"manifests"},
	"orchestrator/ir/expr":          {"orchestrator/ir/finding"},
	"orchestrator/ir/check":         {"manifests", "manifests/schemas", "manifests/templates", "orchestrator/ir", "orchestrator/ir/expr", "orchestrator/ir/finding"},
	"orchestrator/sprites":          {"orchestrator/sprites/backoff", "orchestrator/sprites/progress", "orchestrator/sprites/socket"},
	"orchestrator/sprites/backoff":  {},
	"orchestrator/sprites/progress": {},
	"orchestrator/sprites/socket":   {},
	"orchestrator/worktree":         {"orchestrator/lattice", "orchestrator/worktree/...", "skills/unified", "spritekit/fault", "spritekit/protocol"},
	"orchestrator/worktree/mirror":  {"orchestrator/worktree/gitexec", "orchestrator/worktree/remote"},
	"orchestrator/worktree/remote":  {"orchestrator/worktree/gitexec"},
	// Processes of git, with and without limits.
	"orchestrator/worktree/gitexec": {"orchestrator/lattice", "spritekit/protocol"},
	// What of this machine sprites may be shown, and what it lacks.
	"orchestrator/toolchain": {"orchestrator/lattice", "spritekit/fault", "spritekit/protocol"},
	// Skills of others, as folders of this machine.
	"orchestrator/dropin": {"manifests", "spritekit/fault"},
	// Images, and what is in them.
	"orchestrator/oci":  {"orchestrator/bytecount", "spritekit/fault", "spritekit/protocol"}, // protocol: the name of the second file
	"orchestrator/sbom": {"spritekit/protocol"},

	// The host composes parts, top to bottom. The calls of one subject each know the fleet; nothing below knows them.
	"orchestrator/host":          {"orchestrator/host/catalog", "orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/execs", "orchestrator/host/fileapi", "orchestrator/host/fleet", "orchestrator/host/history", "orchestrator/host/initfile", "orchestrator/host/network", "orchestrator/host/reach", "orchestrator/host/records", "orchestrator/host/sandbox/spec", "orchestrator/host/sandbox/cgroup", "orchestrator/host/services", "orchestrator/host/share", "orchestrator/host/storage", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/catalog":  {"orchestrator/boltfile", "orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/egress", "orchestrator/host/fleet", "orchestrator/host/image", "orchestrator/host/network", "orchestrator/host/records", "orchestrator/host/sandbox/spec", "orchestrator/host/share", "orchestrator/host/storage", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/history":  {"orchestrator/host/core", "orchestrator/host/fleet", "orchestrator/host/layer", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/storage", "orchestrator/host/tree", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/execs":    {"orchestrator/boltfile", "orchestrator/host/core", "orchestrator/host/fleet", "orchestrator/host/program", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/sandbox/channel", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/fileapi":  {"orchestrator/boltfile", "orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/files", "orchestrator/host/fleet", "orchestrator/host/program", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/share", "orchestrator/host/storage", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/reach":    {"orchestrator/boltfile", "orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/egress", "orchestrator/host/fleet", "orchestrator/host/network", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/services", "orchestrator/host/wire", "orchestrator/patient", "orchestrator/sprites", "spritekit/exact"},
	"orchestrator/host/fleet":    {"orchestrator/boltfile", "orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/egress", "orchestrator/host/network", "orchestrator/host/program", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/sandbox/channel", "orchestrator/host/services", "orchestrator/host/share", "orchestrator/host/storage", "orchestrator/host/wire", "orchestrator/patient", "orchestrator/sprites"},
	"orchestrator/host/services": {"orchestrator/boltfile", "orchestrator/host/core", "orchestrator/host/program", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/network":  {"orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/egress", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/share":    {"orchestrator/boltfile", "orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/tree", "orchestrator/host/wire"},
	"orchestrator/host/storage":  {"orchestrator/boltfile", "orchestrator/host/confine", "orchestrator/host/core", "orchestrator/host/image", "orchestrator/host/layer", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/tree", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/confine":  {"orchestrator/host/core", "orchestrator/host/records", "orchestrator/host/sandbox", "orchestrator/host/sandbox/spec", "orchestrator/host/subids", "orchestrator/host/wire", "orchestrator/sprites"},
	"orchestrator/host/program":  {"orchestrator/host/sandbox"},
	"orchestrator/host/core":     {"orchestrator/host/egress", "orchestrator/host/layer", "orchestrator/host/records", "orchestrator/host/sandbox/spec", "orchestrator/host/wire"},
	"orchestrator/host/wire":     {"orchestrator/host/records", "orchestrator/host/sandbox/spec", "orchestrator/sprites"},
	"orchestrator/host/records":  {"orchestrator/boltfile", "orchestrator/host/egress", "orchestrator/host/layer", "orchestrator/host/sandbox/spec", "orchestrator/sprites"},
	"orchestrator/host/image":    {"orchestrator/bytecount", "orchestrator/host/tree"},
	// What file calls do, in a sandbox and, confined to folders, on the host.
	"orchestrator/host/files": {},
	// The host's side of a sandbox and its init, which meet over a socket only, then what both need.
	"orchestrator/host/sandbox":            {"orchestrator/host/files", "orchestrator/host/sandbox/cgroup", "orchestrator/host/sandbox/channel", "orchestrator/host/sandbox/idrange", "orchestrator/host/sandbox/procfs", "orchestrator/host/sandbox/spec", "orchestrator/host/sandbox/view", "orchestrator/host/tree"},
	"orchestrator/host/sandbox/netns":      {"orchestrator/host/sandbox/channel", "orchestrator/host/sandbox/spec"},
	"orchestrator/host/sandbox/guest":      {"orchestrator/host/files", "orchestrator/host/sandbox/channel", "orchestrator/host/sandbox/netns", "orchestrator/host/sandbox/procfs", "orchestrator/host/sandbox/spec", "orchestrator/host/sandbox/sudo", "orchestrator/host/sandbox/view"},
	"orchestrator/host/sandbox/sudo":       {"orchestrator/host/sandbox/channel", "orchestrator/host/sandbox/spec"},
	"orchestrator/host/sandbox/channel":    {"orchestrator/host/sandbox/spec", "orchestrator/host/sandbox/view"},
	"orchestrator/host/sandbox/cgroup":     {"orchestrator/host/sandbox/spec"},
	"orchestrator/host/sandbox/view":       {"orchestrator/host/sandbox/idrange", "orchestrator/host/sandbox/spec"},
	"orchestrator/host/sandbox/idrange":    {"orchestrator/host/sandbox/spec"},
	"orchestrator/host/sandbox/procfs":     {},
	"orchestrator/host/sandbox/spec":       {"orchestrator/host/subids"},
	"orchestrator/host/sandbox/callfilter": {},
	// What these two import, every init pays for.
	"orchestrator/host/sandbox/early":   {"orchestrator/host/sandbox/guest", "orchestrator/host/sandbox/spec", "orchestrator/host/tree"},
	"orchestrator/host/sandbox/boxinit": {"orchestrator/host/sandbox/guest", "orchestrator/host/sandbox/spec"},
	"orchestrator/host/initfile":        {},
	"orchestrator/host/egress":          {"spritekit/exact", "spritekit/netrange"},
	"orchestrator/host/layer":           {"orchestrator/host/tree"},
	"orchestrator/host/tree":            {"orchestrator/host/subids"},
	"orchestrator/host/subids":          {},
	"orchestrator/sprites/spritestest":  {"orchestrator/sprites"},

	"scripts/genschema": {"orchestrator/api/route", "orchestrator/fleet", "orchestrator/artifact", "manifests", "manifests/templates", "orchestrator/api", "orchestrator/api/exchange", "orchestrator/attest", "orchestrator/audit", "orchestrator/board", "orchestrator/compile", "orchestrator/intent", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice", "orchestrator/policy", "orchestrator/proposal", "orchestrator/secret", "orchestrator/settings", "orchestrator/sprites", "orchestrator/worker", "skills/agent/adapter", "skills/test", "spritekit/fault", "spritekit/loop", "spritekit/protocol"}, // the only importer of both halves
	"scripts/checkrun":  {},                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                  // a witness that shares code with the accused proves nothing

	"scripts/testreport": {},
	"scripts/corpus":     {}, // it runs the go command
	"scripts/vuln":       {},
	"scripts/typecheck":  {},
	"scripts/forgeapi":   {},
	"scripts/genman":     {},                                           // it reads the help of the built programs
	"scripts/scale":      {"orchestrator/store/postgres/postgrestest"}, // it starts the built programs
}

// leaves are the packages that every other may name. They hold helpers on the standard library alone; while a law kept them
// on one side, the other side had copies.
var leaves = []string{"spritekit/durable", "spritekit/marked", "spritekit/text"}

// owners lists the only packages that may import a third-party module. Other modules are free.
var owners = map[string][]string{
	"go.etcd.io/bbolt":                       {"orchestrator/boltfile", "orchestrator/store/bolt", "orchestrator/host/records"},
	"github.com/jackc/pgx":                   {"orchestrator/store/postgres", "orchestrator/store/postgres/postgrestest"},
	"github.com/coder/websocket":             {"orchestrator/sprites", "orchestrator/sprites/socket", "orchestrator/host/execs", "orchestrator/host/fileapi", "orchestrator/host/reach", "orchestrator/host/wire", "orchestrator/sprites/spritestest"},
	"github.com/go-git/go-git":               {"skills/git/native", "skills/git/native/gitdir", "skills/git/native/wire", "orchestrator/worktree"},
	"github.com/modelcontextprotocol/go-sdk": {"orchestrator/mcp", "spritekit/mcp"},
	"github.com/google/jsonschema-go":        {"skills/agent/schema", "spritekit/mcp"},
	"github.com/bmatcuk/doublestar":          {"skills/fs"},
	"github.com/creack/pty":                  {"orchestrator/host/sandbox", "orchestrator/host/sandbox/guest"},
	"github.com/invopop/jsonschema":          {"scripts/genschema"},
	"github.com/spf13/cobra":                 {"orchestrator/program", "orchestrator/cli", "orchestrator/command/...", "orchestrator/complete", "orchestrator/connect", "orchestrator/equip", "orchestrator/follow", "orchestrator/launch", "orchestrator/sources", "spritekit"},
	"github.com/BurntSushi/toml":             {"orchestrator/policy", "orchestrator/secret", "orchestrator/settings", "orchestrator/worker"},
	"github.com/google/go-containerregistry": {"orchestrator/oci", "orchestrator/host/image"},
	"github.com/google/nftables":             {"orchestrator/host/sandbox/netns"},
	"github.com/mdlayher/netlink":            {"orchestrator/host/sandbox/netns"},
	"filippo.io/age":                         {"orchestrator/secret/provider"},
	"golang.org/x/time":                      {"orchestrator/llm", "orchestrator/host/fleet", "orchestrator/host/program"},
	"golang.org/x/net":                       {"orchestrator/host/egress", "orchestrator/host/fleet", "orchestrator/host/sandbox/callfilter", "orchestrator/equip", "orchestrator/setup", "skills/httpenv", "skills/web/page"}, // DNS messages and names; a bound on connections; filters of system calls; how a proxy is chosen; HTML
	"golang.org/x/text":                      {"skills/web/proof"},                                                                                                                                                             // normal forms
}

// unreachable lists what a package must not depend on even through others.
var unreachable = []struct {
	from, to []string
	why      string
}{
	{[]string{"spritekit/...", "spritekit", "skills/...", "skills"},
		[]string{module + "/orchestrator/...", "go.etcd.io/bbolt/...", "go.etcd.io/bbolt", "github.com/jackc/...", "github.com/coder/websocket"},
		"the sprite's side knows nothing of the orchestrator's"},
	{[]string{"spritekit/protocol"}, []string{"github.com/...", "golang.org/...", "go.etcd.io/..."},
		"the protocol is for everybody: standard library only, and its own folders"},
	{[]string{"manifests", "orchestrator/ir", "orchestrator/ir/...", "orchestrator/lattice"},
		[]string{"net", "net/http", "os/exec", "golang.org/...", "go.etcd.io/...", "github.com/coder/...", "github.com/oklog/..."},
		"nouns and documents do no I/O"},
	{[]string{"orchestrator/command/..."}, []string{module + "/orchestrator/command/..."}, "groups of commands are siblings"},
	{[]string{"spritekit"}, []string{"github.com/go-git/...", "github.com/modelcontextprotocol/...", "github.com/google/jsonschema-go/..."},
		"what is heavy and rarely needed is in the second file"},
	{[]string{"spritekit", "spritekit/extra", "orchestrator"}, []string{"github.com/invopop/..."},
		"the schema generator is linked into neither binary"},
}

// unused lists standard packages that a package must not name: what they do is done elsewhere.
var unused = map[string][]string{
	"spritekit/protocol":           {"os", "os/exec", "io/fs", "net", "net/http", "syscall", "math/rand", "math/rand/v2", "crypto/rand"},
	"orchestrator/engine":          {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/engine/machine":  {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/engine/runstate": {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/engine/replay":   {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/engine/driver":   {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/ir":              {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/ir/finding":      {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/ir/expr":         {"os", "os/exec", "net", "net/http", "syscall"},
	"orchestrator/ir/check":        {"os", "os/exec", "net", "net/http", "syscall"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %v\n%s", cmd, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	all := map[string]pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module+"/")] = p
	}
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for name, p := range packages(t) {
		if name == module {
			continue // this package: tests only
		}
		allowed, listed := mayImport[name]
		for _, family := range []string{"skills/", "orchestrator/command/"} {
			if !listed && strings.HasPrefix(name, family) {
				allowed, listed = mayImport[family+"*"]
			}
		}
		if !listed {
			t.Errorf("%s is in no law: give it its place in mayImport", name)
			continue
		}
		for _, path := range p.Imports {
			inner, ours := strings.CutPrefix(path, module+"/")
			if ours && !matches(inner, allowed) && !slices.Contains(leaves, inner) {
				t.Errorf("%s imports %s; it may import %v", name, inner, allowed)
			}
			if slices.Contains(unused[name], path) {
				t.Errorf("%s imports %s, which is not its business", name, path)
			}
			for dep, who := range owners {
				if (path == dep || strings.HasPrefix(path, dep+"/")) && !matches(name, who) {
					t.Errorf("%s imports %s; only %v may", name, path, who)
				}
			}
		}
	}
}

func TestPackagesReachOnlyWhatTheyMay(t *testing.T) {
	all := packages(t)
	for _, law := range unreachable {
		bound := 0
		for name, p := range all {
			if !matches(name, law.from) {
				continue
			}
			bound++
			for _, dep := range p.Deps {
				if matches(dep, law.to) && !strings.HasPrefix(dep, module+"/"+name+"/") { // its own folders are parts of it
					t.Errorf("%s reaches %s: %s", name, dep, law.why)
				}
			}
		}
		if bound == 0 {
			t.Errorf("no package is bound by the law %q", law.why)
		}
	}
}

// matches reports whether path is in list, where x/... stands for everything below x.
func matches(path string, list []string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
			return strings.HasPrefix(path, tree+"/")
		}
		return path == pattern
	})
}
