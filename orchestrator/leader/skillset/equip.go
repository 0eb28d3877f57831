// Package skillset finds spritekit and the skills of others on this machine and puts both into sprites. Start with
// InstallSkills, for the embedded host, and Equipment, for remote sprites.
package skillset

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/bytecount"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Equipment installs in remote sprites, before their first skill call, the spritekit that is found here in /skills, and makes a
// /workspace that their user may write. The embedded host provides both itself.
type Equipment struct {
	Client *sprites.Client
	// Find returns the path of the spritekit for an architecture of Linux ("amd64").
	Find func(arch string) (string, error)
	// Warn shows a warning to the person at the terminal.
	Warn func(string)
	// Tell, which may be nil, is called while a file is sent, with how many of its bytes are sent.
	Tell func(step string, done, of int64)
}

const (
	// pushTimeout bounds the sending of a spritekit, of some megabytes.
	pushTimeout = 15 * time.Minute
	// maxLook bounds the inspections of a sprite: before a push, after it, and once more if the reply to the push was lost.
	maxLook = 3
)

// Equip inspects a sprite and installs the missing parts. If nothing is missing it takes one exec.
func (q Equipment) Equip(ctx context.Context, sprite string) error {
	_, err := q.Install(ctx, sprite)
	return err
}

// Install is Equip that returns the sha256, in hexadecimal, of the spritekit in the sprite. It reports success only after an
// inspection has found the spritekit in place.
func (q Equipment) Install(ctx context.Context, sprite string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	var uncertain error
	for range maxLook {
		seen, err := q.inspectSprite(ctx, sprite)
		if err != nil {
			return "", fmt.Errorf("look at the skills of sprite %s: %w", sprite, err)
		}
		kit, err := q.findBinary(sprite, seen)
		if err != nil {
			return "", err
		}
		todo, err := seen.listMissing(sprite, kit)
		if err != nil {
			return "", err
		}
		if todo.warning != "" {
			q.Warn(todo.warning)
		}
		if !todo.skills && !todo.workspace {
			return seen.digest, nil
		}
		if err = q.installKit(ctx, sprite, kit, seen, todo); err != nil && !sprites.Uncertain(err) {
			return "", fmt.Errorf("install skills in sprite %s: %w", sprite, err)
		}
		uncertain = err
	}
	if uncertain == nil {
		uncertain = fmt.Errorf("the installed files are not found there")
	}
	return "", fmt.Errorf("install skills in sprite %s: %w", sprite, uncertain)
}

// lookScript prints the state of a sprite, a word and its value on each line. It runs with the sprite's own environment.
const lookScript = `may() { if [ -w "$1" ]; then echo yes; elif sudo -n test -w "$1" 2>/dev/null; then echo sudo; else echo no; fi; }
echo system $(uname -s) $(uname -m)
if [ -f /skills/spritekit ]; then
	echo digest $(sha256sum </skills/spritekit)
	if [ -f /skills/spritekit-extra ]; then echo extra $(sha256sum </skills/spritekit-extra); fi
	/skills/spritekit version --json 2>/dev/null | sed 's/^/version /'
	/skills/spritekit install /skills --verify >/dev/null 2>&1 && echo complete yes
fi
if [ -d /skills ]; then echo skills $(may /skills); else echo skills $(may /); fi
if [ -d /workspace ]; then echo workspace $(may /workspace); else echo root $(may /); fi`

// equipped is the state that a sprite reports. It is trusted: a sprite that lies harms only its own calls.
type equipped struct {
	system, machine string
	digest          string // of /skills/spritekit, "" when there is none
	extra           string // of /skills/spritekit-extra, "" when there is none
	version         string // of its protocol
	complete        bool   // all its links and manifests are there
	skills          access // may /skills be written
	workspace       access // may /workspace be written, "" when there is none
	root            access // may / be written, if there is no /workspace
}

// access is how the sprite's user may write a folder.
type access string

const (
	accessYes  access = "yes"
	accessSudo access = "sudo"
)

func (a access) isPossible() bool { return a == accessYes || a == accessSudo }

func (q Equipment) inspectSprite(ctx context.Context, sprite string) (equipped, error) {
	var out, errs bytes.Buffer
	var exit int
	var err error
	for range maxLook { // an inspection changes nothing and may be repeated
		out.Reset()
		errs.Reset()
		exit, err = q.Client.Exec(ctx, sprite, sprites.Exec{Cmd: []string{"sh", "-c", lookScript}, Stdout: &out, Stderr: &errs})
		if !sprites.Uncertain(err) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return equipped{}, err
	}
	seen := parseLook(out.String())
	if exit != 0 && seen.system == "" {
		return seen, fmt.Errorf("its shell ended with exit code %d: %s", exit, strings.TrimSpace(errs.String()))
	}
	return seen, nil
}

func parseLook(text string) equipped {
	var e equipped
	for line := range strings.Lines(text) {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		fields := strings.Fields(value + " - -")
		switch word {
		case "system":
			e.system, e.machine = fields[0], fields[1]
		case "digest":
			e.digest = fields[0]
		case "extra":
			e.extra = fields[0]
		case "version":
			var v struct{ Protocol string }
			if json.Unmarshal([]byte(value), &v) == nil {
				e.version = v.Protocol
			}
		case "complete":
			e.complete = true
		case "skills":
			e.skills = access(fields[0])
		case "workspace":
			e.workspace = access(fields[0])
		case "root":
			e.root = access(fields[0])
		}
	}
	return e
}

// todo names the missing parts of a sprite.
type todo struct {
	skills, workspace bool
	warning           string
}

// listMissing returns the parts that a sprite is missing. It accepts other skills that cannot be replaced if they use the same
// version of the protocol.
func (e equipped) listMissing(sprite string, kit kit) (todo, error) {
	digest := kit.digest
	var t todo
	switch {
	case e.digest == digest && e.complete && (kit.extra == "" || e.extra == kit.extraDigest):
	case e.skills.isPossible():
		t.skills = true
		if e.digest != "" && e.digest != digest {
			t.warning = fmt.Sprintf("sprite %s has another spritekit (sha256 %.12s), which is replaced; skills of others in its /skills stay as they are", sprite, e.digest)
		}
	case e.version == protocol.Version && e.complete:
		t.warning = fmt.Sprintf("sprite %s has another spritekit (sha256 %.12s) in a /skills that cannot be written; its skills are used as they are", sprite, e.digest)
	case e.digest == "":
		return t, fault.Unsupported("skills_missing", "sprite %s has no spritekit in /skills, and its user may not put one there", sprite).WithHint("let its user write /skills or use sudo, or install spritekit in its image: spritekit install /skills")
	default:
		return t, fault.Unsupported("skills_differ", "the /skills of sprite %s hold another spritekit (protocol %q, sha256 %.12s), and its user may not replace it", sprite, e.version, e.digest).WithHint("use the spritekit of this lattice there, or let the sprite's user write /skills")
	}
	t.workspace = e.workspace != accessYes
	if t.workspace && !e.workspace.isPossible() && !e.root.isPossible() {
		return t, fault.Unsupported("workspace_missing", "sprite %s has no /workspace that its user may write", sprite).WithHint("make /workspace in its image, and give it to the user")
	}
	return t, nil
}

// kit holds paths and digests of a spritekit and of its second file. extra is "" if the second file is not found.
type kit struct{ path, digest, extra, extraDigest string }

// findBinary finds the spritekit for the architecture of a sprite.
func (q Equipment) findBinary(sprite string, seen equipped) (k kit, err error) {
	arch, known := map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[seen.machine]
	if seen.system != "Linux" || !known {
		return k, fault.Unsupported("sprite_machine", "sprite %s is a machine that spritekit is not built for: %s %s", sprite, seen.system, seen.machine).WithHint("use a sprite with Linux on amd64 or arm64")
	}
	if k.path, err = q.Find(arch); err != nil {
		return k, err
	}
	if k.digest, err = hashFiles(k.path); err != nil {
		return k, err
	}
	if k.extra = FindExtra(k.path); k.extra != "" {
		k.extraDigest, err = hashFiles(k.extra)
	}
	return k, err
}

// installScript makes /workspace and installs a spritekit: $1 is its path, $2 its digest, $3 and $4 the prefix of commands that
// write /skills and /workspace ("sudo -n" or nothing), $5 and $6 are path and digest of its second file, or empty. Without
// $1 it only makes the workspace. An installation without a record needs --force.
const installScript = `set -e
if [ ! -w /workspace ]; then $4 mkdir -p /workspace; $4 chown "$(id -u):$(id -g)" /workspace; fi
[ -n "$1" ] || exit 0
trap 'rm -f "$1" ${5:+"$5"}' EXIT
same() { case $(sha256sum <"$1") in "$2 "*) ;; *) echo "the file that arrived is not the one that was sent" >&2; exit 1 ;; esac; }
same "$1" "$2"
[ -z "$5" ] || same "$5" "$6"
chmod 755 "$1"
force=
if [ -e /skills/spritekit ] && [ ! -e /skills/manifests/installed.json ]; then force=--force; fi
$3 "$1" install /skills $force ${5:+--extra "$5"}`

// installKit sends the spritekit and installs it. Like install, it leaves drop-in skills in /skills alone.
func (q Equipment) installKit(ctx context.Context, sprite string, kit kit, seen equipped, t todo) (err error) {
	sent, sentExtra := "", ""
	if t.skills {
		if sent, err = q.sendFile(ctx, sprite, kit.path, kit.digest); err != nil {
			return err
		}
		if kit.extra != "" {
			if sentExtra, err = q.sendFile(ctx, sprite, kit.extra, kit.extraDigest); err != nil {
				return err
			}
		}
	}
	how := func(a access) string {
		if a == accessSudo {
			return "sudo -n"
		}
		return ""
	}
	workspace := cmp.Or(seen.workspace, seen.root)
	var errs bytes.Buffer
	exit, err := q.Client.Exec(ctx, sprite, sprites.Exec{
		Cmd:    []string{"sh", "-c", installScript, "sh", sent, kit.digest, how(seen.skills), how(workspace), sentExtra, kit.extraDigest},
		Stderr: &errs, MaxRunAfterDisconnect: time.Minute,
	})
	if err != nil {
		return err
	}
	if exit != 0 {
		return fault.Failed("install_failed", "install ended with exit code %d: %s", exit, strings.TrimSpace(errs.String())).WithHint("lattice sprite console %s shows the sprite from inside", sprite)
	}
	return nil
}

// sendFile writes a file into the /tmp of a sprite and returns its path there.
func (q Equipment) sendFile(ctx context.Context, sprite, path, digest string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read spritekit: %w", err)
	}
	defer f.Close()
	to := "/tmp/.spritekit-" + digest[:16]
	var from io.Reader = f
	if info, err := f.Stat(); err == nil && q.Tell != nil {
		from = bytecount.File(f, info.Size(), func(sent int64) { q.Tell("sent of "+filepath.Base(path), sent, info.Size()) })
	}
	return to, q.Client.WriteFile(ctx, sprite, to, from, 0o755)
}

// FindSpritekitFor finds the spritekit for Linux on an architecture, named spritekit-linux-ARCH, or spritekit if its ELF header
// fits: at told, or next to it, if told is set, else next to lattice (self) and on PATH.
func FindSpritekitFor(told, self, path, arch string) (string, error) {
	name := "spritekit-linux-" + arch
	dirs := append([]string{filepath.Dir(self)}, filepath.SplitList(path)...)
	candidates := []string{}
	for _, dir := range dirs {
		if filepath.IsAbs(dir) {
			candidates = append(candidates, filepath.Join(dir, name), filepath.Join(dir, "spritekit"))
		}
	}
	if told != "" {
		candidates = []string{told, filepath.Join(filepath.Dir(told), name)}
	}
	for _, c := range candidates {
		if runsOn(c, arch) {
			return filepath.Abs(c)
		}
	}
	where := "next to lattice or on PATH"
	if told != "" {
		where = "at " + told + " or next to it"
	}
	return "", fault.NotFound("spritekit_missing", "the sprite runs Linux on %s, and there is no spritekit for that %s", arch, where).
		WithHint("GOOS=linux GOARCH=%s CGO_ENABLED=0 go build -trimpath -o %s ./spritekit, and the same of ./spritekit/extra as %s; put both there", arch, name, protocol.ExtraOf(name))
}

// runsOn reports whether an executable runs on Linux on an architecture, by its ELF header.
func runsOn(path, arch string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	return f.Machine == want && (f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN)
}
