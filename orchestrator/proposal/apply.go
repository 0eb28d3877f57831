package proposal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// nodePrefix begins the ids of the nodes that Apply adds.
const nodePrefix = "environment_"

// Apply returns the ExecIR document with the adjustments in it: nodes that install what is missing before the first node,
// nodes that run after each git.clone of the flow itself, and the test command of its test.run nodes. Adjustments without
// a place in the document are not in applied: network access is not part of a flow, and a flow may clone or test nothing.
func Apply(document []byte, adjustments []Adjustment) (changed []byte, applied []Adjustment, err error) {
	if len(adjustments) == 0 {
		return document, nil, nil // a document may have short forms, which only package ir reads
	}
	var doc ir.Document
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return nil, nil, fmt.Errorf("read the flow: %w", err)
	}
	b := builder{doc: &doc}
	for _, a := range adjustments {
		ok := false
		switch a.Type {
		case protocol.AdjustRuntimeInstall, protocol.AdjustRuntimeVersion:
			ok = b.addFirst(installRuntime(a))
		case protocol.AdjustDependencyManagerSwitch:
			ok = b.addFirst(execArgs{Argv: managers[a.Manager]})
		case protocol.AdjustAddSystemPackage:
			ok = b.addFirst(execArgs{Command: installPackages(a.Packages)})
		case protocol.AdjustAddPreinstallStep:
			ok = b.addAfterClones(a)
		case protocol.AdjustSmokeCommand:
			ok = b.setTestCommand(a)
		}
		if ok {
			applied = append(applied, a)
		}
	}
	if len(applied) == 0 {
		return document, nil, nil
	}
	b.chainFirst()
	if b.added && doc.Tools != nil && !slices.Contains(doc.Tools, "exec.run") {
		doc.Tools = append(doc.Tools, "exec.run")
	}
	changed, err = json.Marshal(doc)
	if err != nil {
		return nil, nil, fmt.Errorf("write the flow: %w", err)
	}
	return changed, applied, nil
}

// execArgs are the arguments of an exec.run node.
type execArgs struct {
	Argv    []string `json:"argv,omitempty"`
	Command string   `json:"command,omitempty"`
	Cwd     string   `json:"cwd,omitempty"`
}

// builder adds nodes to a document.
type builder struct {
	doc   *ir.Document
	first []string // ids of nodes that run before the entry node, in order
	added bool
}

// add appends an exec.run node and returns its id, which no other node has.
func (b *builder) add(args execArgs) string {
	id := ""
	for n := 1; id == "" || slices.ContainsFunc(b.doc.Nodes, func(node ir.Node) bool { return node.ID == id }); n++ {
		id = fmt.Sprintf("%s%d", nodePrefix, n)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // strings alone
	}
	b.doc.Nodes = append(b.doc.Nodes, ir.Node{ID: id, Op: ir.OpToolCall, Tool: "exec.run", Args: raw})
	b.added = true
	return id
}

func (b *builder) addFirst(args execArgs) bool {
	b.first = append(b.first, b.add(args))
	return true
}

// chainFirst puts the nodes of addFirst in front of the entry node.
func (b *builder) chainFirst() {
	entry := b.doc.EntryNode
	for _, id := range slices.Backward(b.first) {
		b.doc.Edges = append(b.doc.Edges, ir.Edge{From: id, To: entry})
		entry = id
	}
	b.doc.EntryNode = entry
}

// addAfterClones adds a step behind each git.clone of the flow itself. It takes over the edges of the clone.
func (b *builder) addAfterClones(a Adjustment) bool {
	found := false
	for _, node := range slices.Clone(b.doc.Nodes) {
		if node.Tool != "git.clone" {
			continue
		}
		args := execArgs{Argv: a.Argv} // exec.run's default is the repository
		if a.Cwd != "" {
			args.Cwd = path.Join("repo", a.Cwd)
		}
		id := b.add(args)
		for i, e := range b.doc.Edges {
			if e.From == node.ID {
				b.doc.Edges[i].From = id
			}
		}
		b.doc.Edges = append(b.doc.Edges, ir.Edge{From: node.ID, To: id})
		found = true
	}
	return found
}

// setTestCommand gives each test.run of the flow itself the command, unless the flow or its input names one.
func (b *builder) setTestCommand(a Adjustment) bool {
	found := false
	command, err := json.Marshal(a.Argv)
	if err != nil {
		panic(err) // strings alone
	}
	for i, node := range b.doc.Nodes {
		if node.Tool != "test.run" {
			continue
		}
		args := map[string]json.RawMessage{}
		if len(node.Args) > 0 && json.Unmarshal(node.Args, &args) != nil {
			continue // the whole of the arguments is an expression
		}
		var byInput map[string]json.RawMessage
		switch {
		case args["command"] == nil:
			args["command"] = command
		case json.Unmarshal(args["command"], &byInput) == nil && byInput["ref"] != nil && string(byInput["default"]) == "null":
			byInput["default"] = command
			args["command"] = encode(byInput)
		default:
			continue // the flow names a command of its own
		}
		b.doc.Nodes[i].Args = encode(args)
		found = true
	}
	return found
}

// encode returns v as JSON; v holds JSON already.
func encode(v map[string]json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// installRuntime returns the step that has the runtime in the version, installed from the distribution if need be. A
// version that the distribution does not have fails the step with the remedy.
func installRuntime(a Adjustment) execArgs {
	r := runtimes[a.Runtime]
	checked := "command -v " + r.program + " >/dev/null"
	if a.Version != "" {
		// The number follows something that is not part of one: "v20.1.0", "Python 3.12.1", "go1.26.0".
		checked += " && " + r.program + " " + r.argument + ` 2>&1 | grep -Eq '(^|[^0-9.])` + strings.ReplaceAll(a.Version, ".", `\.`) + `([^0-9]|$)'`
	}
	install := "false"
	if len(r.packages) > 0 {
		install = installPackages(r.packages)
	}
	remedy := fmt.Sprintf("echo %q >&2; exit 1", strings.TrimSpace(a.Runtime+" "+a.Version)+" is not here and not in the distribution: start runs with an image or a --tool that has it")
	return execArgs{Command: "{ " + checked + "; } || { " + install + " && " + checked + "; } || { " + remedy + "; }"}
}

// installPackages returns the shell line that installs packages of the distribution. Their names have a fixed shape.
func installPackages(names []string) string {
	return "sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends " + strings.Join(names, " ")
}

// Domains returns the names that the adjustments let sprites reach.
func Domains(adjustments []Adjustment) (domains []string) {
	for _, a := range adjustments {
		for _, d := range a.Domains {
			if !slices.Contains(domains, d) {
				domains = append(domains, d)
			}
		}
	}
	return domains
}

// Truncate returns the document without what follows a node of the flow itself, so that a run of it ends behind the node.
func Truncate(document []byte, node string) ([]byte, error) {
	var doc ir.Document
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("read the flow: %w", err)
	}
	i := slices.IndexFunc(doc.Nodes, func(n ir.Node) bool { return n.ID == node })
	if i < 0 {
		return nil, fmt.Errorf("the flow has no node %q", node)
	}
	doc.Nodes[i].Catch = nil // a failure is not to be caught
	reached := reachable(doc, node)
	doc.Nodes = slices.DeleteFunc(doc.Nodes, func(n ir.Node) bool { return !reached[n.ID] })
	doc.Edges = slices.DeleteFunc(doc.Edges, func(e ir.Edge) bool { return e.From == node || !reached[e.From] || !reached[e.To] })
	doc.Output = nil
	return json.Marshal(doc)
}

// reachable returns the nodes that a run can enter before it leaves the last one.
func reachable(doc ir.Document, last string) map[string]bool {
	reached := map[string]bool{}
	for queue := []string{doc.EntryNode}; len(queue) > 0; {
		id := queue[0]
		queue = queue[1:]
		if reached[id] {
			continue
		}
		reached[id] = true
		if id == last {
			continue
		}
		for _, e := range doc.Edges {
			if e.From == id {
				queue = append(queue, e.To)
			}
		}
		for _, n := range doc.Nodes {
			if n.ID == id {
				for _, c := range n.Catch {
					queue = append(queue, c.To)
				}
			}
		}
	}
	return reached
}
