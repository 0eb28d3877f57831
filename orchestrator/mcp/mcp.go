// Package mcp offers sprites, flows and runs to an agent outside of sprites, as tools of the Model Context Protocol. Begin
// with New and Server.Serve; sprites.go and runs.go list the tools.
//
// A tool sends the requests of the command of the same purpose to the leader, so that the same policy holds and the same entries
// come into the audit log, with the client's name. Its result is the JSON that the command prints with --json. The leader is
// a process in the background: runs and sprites outlive the client and this process.
//
// A client that knows the extension Tasks of the protocol gets a task for a run (tasks.go), whose id is that of the run. It
// is durable as the run is.
//
// Over HTTP (http.go), each request acts with the rights of its token.
//
// Decisions are a person's. Without Options.Decide no tool decides anything, and a task that waits for a person only says how
// the person decides.
package mcp

import (
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

const instructions = `Sandboxes (sprites), flows and runs of lattice on the user's machine.
sprite_create makes a sandbox; sprite_exec runs commands in it, file_read and file_write move text, sprite_checkpoint and sprite_restore save and restore its files.
flow_run starts a flow as a durable run. A run with status "waiting" needs a decision of the user: show its waits to the user, and do not try to get around them.
board_tasks, board_move and board_comment are about the tasks of the repository in which the server started.`

// New makes a server. A pattern of Options.Tools that names no tool is an error.
func New(env *setup.Env, o Options) (*Server, error) {
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}
	s := &Server{env: env, o: o}
	tasks := s.offers(runFlowTool)
	if tasks {
		capabilities.AddExtension(extension, nil)
	}
	s.server = sdk.NewServer(
		&sdk.Implementation{Name: "lattice", Title: "Lattice", Version: env.Version}, &sdk.ServerOptions{Instructions: instructions, Capabilities: capabilities},
	)
	s.addSpriteTools()
	s.addFileTools()
	if o.Over == nil {
		s.addBoardTools() // of the folder in which the client started the server
	}
	s.addRunTools()
	for _, pattern := range o.Tools {
		if !slices.ContainsFunc(s.names, func(name string) bool { return isMatch(pattern, name) }) {
			return nil, fault.NotFound("mcp_tool_not_found", "there is no tool %s", pattern).WithHint("lattice mcp --help lists the tools; those that decide need --decide")
		}
	}
	if tasks {
		return s, s.addTasks()
	}
	return s, nil
}
