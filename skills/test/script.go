package test

import (
	"path"
	"slices"
	"strings"
)

// call is how a script of package.json calls a tool: "NODE_ENV=test jest --config x".
type call struct {
	env  []string // assignments before it
	node []string // flags for node, when it runs the tool's file
	args []string
}

// scriptCall finds a tool in a script. ok is false when the script does not begin with it or is more than one simple
// command: then the tool is called without arguments of the project.
func scriptCall(script, tool string) (c call, ok bool) {
	if strings.ContainsAny(script, "|&;<>$`()\n\\") {
		return call{}, false
	}
	words, ok := splitWords(script)
	if !ok {
		return call{}, false
	}
	node := false
	for i, word := range words {
		name := strings.TrimSuffix(path.Base(word), ".js")
		switch {
		case name == tool && (!strings.HasPrefix(word, "-")):
			c.args = words[i+1:]
			return c, true
		case strings.Contains(word, "=") && !strings.HasPrefix(word, "-") && !node:
			c.env = append(c.env, word)
		case word == "npx" || word == "cross-env" || word == "pnpm" || word == "yarn" || word == "exec" || word == "--no-install":
		case word == "node":
			node = true
		case node && strings.HasPrefix(word, "-"):
			c.node = append(c.node, word)
		default:
			return call{}, false
		}
	}
	return call{}, false
}

// splitWords takes a command apart as a shell would, quotes included. It fails where a quote is not closed.
func splitWords(text string) (words []string, ok bool) {
	var word strings.Builder
	quote, begun := rune(0), false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words, quote == 0
}

// nodeTool detects a tool of package.json: by the script "test"; where that names no tool that is known here, by the
// dependencies or the tool's configuration file.
func nodeTool(tool string, configs ...string) func(*folder) string {
	return func(f *folder) string {
		p, ok := f.npmPackage()
		if !ok {
			return ""
		}
		switch named := scriptTool(p.Scripts["test"]); {
		case named == tool:
			return "package.json: scripts.test"
		case named != "":
			return ""
		case p.DevDependencies[tool] != nil:
			return "package.json: devDependencies." + tool
		case p.Dependencies[tool] != nil:
			return "package.json: dependencies." + tool
		}
		return f.firstFile(configs...)
	}
}

// scriptTool is the runner that a script names, "" for none that is known here.
func scriptTool(script string) string {
	words, _ := splitWords(script)
	for _, word := range words {
		switch name := strings.TrimSuffix(path.Base(word), ".js"); {
		case name == "vitest" || name == "jest" || name == "mocha" || name == "react-scripts":
			return name
		case word == "--test" && slices.Contains(words, "node"):
			return "node"
		}
	}
	return ""
}

// nodeCall is how the project's script "test" calls a tool, and the tool's own file.
func (p *project) nodeCall(tool string) (c call, program string, err error) {
	if pkg, ok := p.npmPackage(); ok {
		c, _ = scriptCall(pkg.Scripts["test"], tool)
	}
	if c.node != nil {
		c.env = append(c.env, "NODE_OPTIONS="+strings.Join(c.node, " "))
	}
	program, err = p.findProgram(tool, "node_modules/.bin")
	return c, program, err
}

// removeFlags drops flags, in their joined form too.
func removeFlags(args []string, flags ...string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return slices.Contains(flags, name)
	})
}

// withoutValued drops flags that take a value, with it, in their joined form too.
func withoutValued(args []string, flags ...string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		if !slices.Contains(flags, name) {
			kept = append(kept, args[i])
		} else if !joined {
			i++
		}
	}
	return kept
}
