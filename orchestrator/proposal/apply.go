package proposal

import (
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

// object is a JSON object whose members are left as they are, short forms and extensions included.
type object map[string]json.RawMessage

// stringMember returns a member that is a string, "" for any other.
func (o object) stringMember(name string) (s string) {
	if json.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

// setMember gives o a member. v is made of strings and JSON, which can always be encoded.
func (o object) setMember(name string, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	o[name] = raw
}

// document is an ExecIR document.
type document struct {
	members object
	nodes   []object
	edges   []object
}

func parseDocument(raw []byte) (d document, err error) {
	if err = json.Unmarshal(raw, &d.members); err == nil {
		err = json.Unmarshal(d.members["nodes"], &d.nodes)
	}
	if err == nil && d.members["edges"] != nil {
		err = json.Unmarshal(d.members["edges"], &d.edges)
	}
	if err != nil {
		return d, fmt.Errorf("read the flow: %w", err)
	}
	return d, nil
}

// encodeJSON returns the document as JSON.
func (d document) encodeJSON() ([]byte, error) {
	d.members.setMember("nodes", d.nodes)
	d.members.setMember("edges", append([]object{}, d.edges...))
	return json.Marshal(d.members)
}

// Apply returns the ExecIR document with the adjustments in it: nodes that install the missing packages before the first node,
// nodes that run after each git.clone of the flow itself, and the test command of its test.run nodes. Adjustments without
// a place in the document are not in applied: network access is not part of a flow, and a flow may clone or test nothing.
func Apply(flow []byte, adjustments []Adjustment) (changed []byte, applied []Adjustment, err error) {
	if len(adjustments) == 0 {
		return flow, nil, nil
	}
	doc, err := parseDocument(flow)
	if err != nil {
		return nil, nil, err
	}
	b := builder{document: doc}
	for _, a := range adjustments {
		ok := false
		switch a.Type {
		case protocol.AdjustRuntimeInstall, protocol.AdjustRuntimeVersion:
			ok = b.addFirst(installRuntime(a))
		case protocol.AdjustDependencyManagerSwitch:
			ok = b.addFirst(installManager(a.Manager))
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
		return flow, nil, nil
	}
	if err := b.finishDocument(); err != nil {
		return nil, nil, err
	}
	changed, err = b.encodeJSON()
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
	document
	first []string // ids of nodes that run before the entry node, in order
	added bool
}

// addNode appends an exec.run node and returns its id, which no other node has.
func (b *builder) addNode(args execArgs) string {
	id := ""
	for n := 1; id == "" || slices.ContainsFunc(b.nodes, func(node object) bool { return node.stringMember("id") == id }); n++ {
		id = fmt.Sprintf("%s%d", nodePrefix, n)
	}
	node := object{}
	node.setMember("id", id)
	node.setMember("op", ir.OpToolCall)
	node.setMember("tool", "exec.run")
	node.setMember("args", args)
	b.nodes = append(b.nodes, node)
	b.added = true
	return id
}

func (b *builder) addFirst(args execArgs) bool {
	b.first = append(b.first, b.addNode(args))
	return true
}

func (b *builder) addEdge(from, to string) {
	edge := object{}
	edge.setMember("from", from)
	edge.setMember("to", to)
	b.edges = append(b.edges, edge)
}

// addAfterClones adds a step behind each git.clone of the flow itself. It takes over the edges of the clone.
func (b *builder) addAfterClones(a Adjustment) bool {
	found := false
	for _, node := range slices.Clone(b.nodes) {
		if node.stringMember("tool") != "git.clone" {
			continue
		}
		args := execArgs{Argv: a.Argv} // exec.run's default is the repository
		if a.Cwd != "" {
			args.Cwd = path.Join("repo", a.Cwd)
		}
		clone, id := node.stringMember("id"), b.addNode(args)
		for _, e := range b.edges {
			if e.stringMember("from") == clone {
				e.setMember("from", id)
			}
		}
		b.addEdge(clone, id)
		found = true
	}
	return found
}

// setTestCommand gives each test.run of the flow itself the command, unless the flow or its input names one.
func (b *builder) setTestCommand(a Adjustment) bool {
	found := false
	for _, node := range b.nodes {
		if node.stringMember("tool") != "test.run" {
			continue
		}
		args := object{}
		if len(node["args"]) > 0 && json.Unmarshal(node["args"], &args) != nil {
			continue // the whole of the arguments is an expression
		}
		byInput := object{}
		switch {
		case args["command"] == nil:
			args.setMember("command", a.Argv)
		case json.Unmarshal(args["command"], &byInput) == nil && byInput["ref"] != nil && string(byInput["default"]) == "null":
			byInput.setMember("default", a.Argv)
			args.setMember("command", byInput)
		default:
			continue // the flow names a command of its own
		}
		node.setMember("args", args)
		found = true
	}
	return found
}

// finishDocument puts the nodes of addFirst in front of the entry node, and exec.run on the list of tools.
func (b *builder) finishDocument() error {
	entry := b.members.stringMember("entry_node")
	for _, id := range slices.Backward(b.first) {
		b.addEdge(id, entry)
		entry = id
	}
	b.members.setMember("entry_node", entry)
	var tools []string
	if !b.added || b.members["tools"] == nil {
		return nil
	}
	if err := json.Unmarshal(b.members["tools"], &tools); err != nil {
		return fmt.Errorf("read the tools of the flow: %w", err)
	}
	if !slices.Contains(tools, "exec.run") {
		b.members.setMember("tools", append(tools, "exec.run"))
	}
	return nil
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

// installManager returns the step that installs a dependency manager, unless it is there.
func installManager(name string) execArgs {
	m := managers[name]
	install := strings.Join(m.argv, " ")
	if len(m.packages) > 0 {
		install = installPackages(m.packages)
	}
	return execArgs{Command: "command -v " + name + " >/dev/null || { " + install + "; }"}
}

// installPackages returns the shell line that installs packages of the distribution. Their names have a fixed shape. A
// sprite without an image has the machine's programs and no packages of its own.
func installPackages(names []string) string {
	const hasPackages = `{ [ -d /var/lib/dpkg ] || { echo "this sprite has no packages of its own: start runs with an image (--image)" >&2; exit 1; }; }`
	return hasPackages + " && sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends " + strings.Join(names, " ")
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

// Truncate returns the flow without the nodes that follow one of its own, so that a run of it ends behind the node.
func Truncate(flow []byte, last string) ([]byte, error) {
	doc, err := parseDocument(flow)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(doc.nodes, func(n object) bool { return n.stringMember("id") == last })
	if i < 0 {
		return nil, fmt.Errorf("the flow has no node %q", last)
	}
	delete(doc.nodes[i], "catch") // a failure is not to be caught
	reached := doc.findReachable(last)
	doc.nodes = slices.DeleteFunc(doc.nodes, func(n object) bool { return !reached[n.stringMember("id")] })
	doc.edges = slices.DeleteFunc(doc.edges, func(e object) bool {
		return e.stringMember("from") == last || !reached[e.stringMember("from")] || !reached[e.stringMember("to")]
	})
	delete(doc.members, "output")
	return doc.encodeJSON()
}

// findReachable returns the nodes that a run can enter before it leaves the last one.
func (d document) findReachable(last string) map[string]bool {
	reached := map[string]bool{}
	for queue := []string{d.members.stringMember("entry_node")}; len(queue) > 0; {
		id := queue[0]
		queue = queue[1:]
		if reached[id] {
			continue
		}
		reached[id] = true
		if id == last {
			continue
		}
		for _, e := range d.edges {
			if e.stringMember("from") == id {
				queue = append(queue, e.stringMember("to"))
			}
		}
		for _, n := range d.nodes {
			var catches []object
			if n.stringMember("id") == id && json.Unmarshal(n["catch"], &catches) == nil {
				for _, c := range catches {
					queue = append(queue, c.stringMember("to"))
				}
			}
		}
	}
	return reached
}
