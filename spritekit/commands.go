package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills"
	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/install"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/resume"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// allCommands lists the words that are no skill.
func allCommands() []command {
	return []command{
		{"skills", "skills [--json] | skills export DIR [--check]", "List the built-in skills, or write all installed skills as Agent Skills (SKILL.md folders).",
			"spritekit skills export .claude/skills", "0 ok, 1 DIR is out of date (--check), 2 bad usage", app.listSkills},
		{"emit", "emit TYPE [key=value…|key:=json…|--payload JSON|-]", "Emit one validated event from a script or an agent.",
			"spritekit emit INFO message='half way' kind=progress", "0 ok, 2 the event breaks a rule, 3 no workspace, 6 the outbox is locked, 7 the outbox is not a regular file, 9 no space", app.runEmit},
		{"checkpoint", "checkpoint create [COMMENT] | checkpoint list [--json]", "Take or list checkpoints of this sprite.",
			"spritekit checkpoint create 'before the upgrade'", "0 ok, 1 the host failed, 2 bad usage, 8 this sprite has no api socket", app.runCheckpoint},
		{"resume", "resume show [--json] | resume ack", "Show the resume payload, or mark it as processed.",
			"spritekit resume show && ./continue.sh && spritekit resume ack", "0 ok, 1 processed before (show), 2 invalid, 3 none, 7 the payload is not a regular file, 9 no space", app.runResume},
		{"serve", "serve PROGRAM [ARG…]", "Run PROGRAM as the skill of the skill.json in its folder: spritekit implements the contract, PROGRAM does the work.",
			`echo '{"text":"a b"}' | spritekit serve ./main.sh`, "the skill's", app.serveProgram},
		{"check", "check SKILL|DIR [--input JSON] [--slow JSON] [--workspace DIR] [--json] | check ADAPTER.json [--json]",
			"Test a skill against the contract of skills, or check an adapter for agent.run, and list the problems.",
			`spritekit check ./text.words --input '{"text":"a b"}'`, "0 ok, 1 the skill breaks the contract or the adapter is invalid, 2 bad usage or no skill", app.runCheck},
		{"install", "install DIR [--extra FILE] [--force | --verify [--json]]", "Copy this binary and its second file, spritekit-extra (from the same folder, or FILE), into DIR, with a link and a manifest for each skill; or compare DIR by hash.",
			"spritekit install /skills", "0 ok, 1 DIR differs (--verify), 2 bad usage, 7 DIR holds other files of these names, 9 no space", app.runInstall},
		{"mcp", "mcp [--workspace DIR] [--http ADDR] [--tools PATTERN,…] [--allow PERMISSION,…] [--skills DIR] [--verbose] [--json]",
			"Offer the skills to an agent as MCP tools, on stdin and stdout or at a loopback address. They work in DIR, by default LATTICE_WORKSPACE or the current folder.",
			"spritekit mcp --tools 'fs.*,git.status' --allow fs:read,fs:write,git:read", "0 ok, 1 the address is taken, 2 bad usage or no folder to work in, 3 a pattern names no skill, 7 the address is not on loopback", app.serveMCP},
		{"session", "session [--parallel N] [--idle DURATION] [--keepalive DURATION]",
			"Serve many calls over one process: calls as lines of JSON on stdin, events and results as lines on stdout.",
			`echo '{"call_id":"c1","skill":"fs.read","input":{"path":"README.md"}}' | spritekit session`, "0 the input ended, 2 bad usage, 75 a call waits, 130 interrupted", app.serveSession},
		{"scrub", "scrub", "Remove secret values from the files in the homes of agents; stdin is a JSON list of the values. lattice runs it before a checkpoint.",
			`echo '["sk-…"]' | spritekit scrub`, "0 ok, 1 a file could not be changed, 2 bad usage", app.runScrub},
		{"version", "version [--json]", "Print the version of the binary and of the protocol.", "spritekit version --json", "0 ok, 2 bad usage", app.printVersion},
	}
}

func (a app) listSkills(args []string) error {
	if len(args) > 0 && args[0] == "export" {
		return a.exportSkills(args[1:])
	}
	args, asJSON := cutFlag(args, "--json")
	if err := noMore(args); err != nil {
		return err
	}
	list := make([]manifests.Skill, 0, len(a.skills))
	for _, s := range a.skills {
		m, ok := manifests.Lookup(s.Name)
		if !ok {
			return fmt.Errorf("this binary has no manifest of %s", s.Name)
		}
		list = append(list, m)
	}
	if asJSON {
		return a.writeJSON(list)
	}
	for _, m := range list {
		fmt.Fprintf(a.stdout, "%-14s %-11s %s\n", m.Name, m.SideEffect, m.Description)
	}
	return nil
}

func (a app) runCheckpoint(args []string) error {
	client := checkpoint.Client{Socket: a.env.Socket}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if len(args) == 0 {
		return usagef("say create or list")
	}
	switch args[0] {
	case "create":
		id, err := client.Create(ctx, strings.Join(args[1:], " "))
		if err != nil {
			return hostFault(err)
		}
		fmt.Fprintln(a.stdout, id)
		return nil
	case "list":
		rest, asJSON := cutFlag(args[1:], "--json")
		if err := noMore(rest); err != nil {
			return err
		}
		list, err := client.List(ctx)
		if err != nil {
			return hostFault(err)
		}
		if asJSON {
			return a.writeJSON(list)
		}
		for _, c := range list {
			fmt.Fprintf(a.stdout, "%-10s %-30s %s\n", c.ID, c.CreateTime, c.Comment)
		}
		return nil
	}
	return usagef("%q is neither create nor list", args[0])
}

func (a app) runResume(args []string) error {
	if len(args) == 0 {
		return usagef("say show or ack")
	}
	if args[0] != "show" && args[0] != "ack" {
		return usagef("%q is neither show nor ack", args[0])
	}
	rest, asJSON := cutFlag(args[1:], "--json")
	if err := noMore(rest); err != nil {
		return err
	}
	root, err := a.openWorkspace()
	if err != nil {
		return err
	}
	defer root.Close()
	res, err := resume.Read(root)
	if errors.Is(err, resume.ErrInvalid) {
		return skill.BadInput("", "%v", err).WithHint("the orchestrator writes it; resume the run again")
	}
	if err != nil {
		return err
	}
	if res == nil {
		return fault.NotFound("not_found", "there is no %s: nobody resumed this sprite", protocol.ResumeFile)
	}
	processed, err := resume.Processed(root, res)
	if err != nil {
		return skill.BadInput("", "%v", err)
	}
	if args[0] == "ack" {
		if processed {
			return nil
		}
		return resume.Mark(root, res, nil, time.Now())
	}
	if asJSON {
		if err := a.writeJSON(map[string]any{"processed": processed, "resume": res}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.stdout, "checkpoint %s\nwork item  %s\ninputs     %s\n", res.CheckpointID, res.WorkItemID, res.Inputs)
	}
	if processed {
		return fault.Failed("processed", "this resume was processed before; there is nothing to do")
	}
	return nil
}

func (a app) runInstall(args []string) error {
	args, verify := cutFlag(args, "--verify")
	args, asJSON := cutFlag(args, "--json")
	args, force := cutFlag(args, "--force")
	args, extra, err := takeOption(args, "--extra")
	if err != nil {
		return err
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return usagef("name one folder")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	kit := install.Kit{Self: self, Extra: cmp.Or(extra, install.FindExtra(self)), Manifests: map[string][]byte{}}
	for _, s := range a.skills {
		kit.Manifests[s.Name] = manifests.Raw(s.Name)
	}
	if verify {
		differences, err := install.Verify(kit, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			if err := a.writeJSON(map[string]any{"ok": differences == nil, "differences": append([]string{}, differences...)}); err != nil {
				return err
			}
		}
		if len(differences) > 0 {
			return fault.Failed("differs", "%s is not this version: %s", args[0], strings.Join(differences, "; ")).
				WithHint("spritekit install %s", args[0])
		}
		return nil
	}
	err = install.Install(kit, args[0], force)
	if err == nil && kit.Extra == "" {
		fmt.Fprintf(a.stderr, "spritekit install: %s is not beside this binary, so %s goes without spritekit mcp and without git where there is none\n", protocol.Extra, args[0])
	}
	if foreign := (*install.ForeignError)(nil); errors.As(err, &foreign) {
		return fault.Unsafe("foreign_files", "%s: %v", args[0], err).WithHint("move them away, or replace them with --force, which spares folders")
	}
	return err
}

func (a app) printVersion(args []string) error {
	args, asJSON := cutFlag(args, "--json")
	if err := noMore(args); err != nil {
		return err
	}
	if asJSON {
		return a.writeJSON(map[string]string{
			"version": protocol.BuildVersion(), "protocol": protocol.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		})
	}
	fmt.Fprintf(a.stdout, "spritekit %s, protocol %s, %s %s/%s\n", protocol.BuildVersion(), protocol.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// maxScrub bounds the input of scrub.
const maxScrub = 1 << 20

func (a app) runScrub(args []string) error {
	if err := noMore(args); err != nil {
		return err
	}
	var values []string
	if err := json.NewDecoder(io.LimitReader(a.stdin, maxScrub)).Decode(&values); err != nil {
		return skill.BadInput("", "stdin is no JSON list of texts: %v", err)
	}
	return skills.ScrubAgents(a.env.Workspace, a.env.State, values)
}

func (a app) openWorkspace() (*workspace.Root, error) {
	root, err := workspace.OpenWithState(a.env.Workspace, a.env.State)
	if err != nil {
		return nil, fault.NotFound("not_found", "there is no workspace at %s: %v", a.env.Workspace, err).
			WithHint("set LATTICE_WORKSPACE to an existing directory")
	}
	return root, nil
}
