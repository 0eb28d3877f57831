package compile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Migration turns documents of one version into the next one. Apply is pure and may change its argument, which is the
// document as decoded JSON with numbers as json.Number.
type Migration struct {
	Member   string // of the version: "workflow_version" …
	From, To string
	Apply    func(document map[string]any) (map[string]any, error)
}

// Migrations returns the built-in migrations. There are none yet: all three formats are at their first version.
func Migrations() []Migration { return nil }

// formats are the documents that have a version.
var formats = []ir.Format{workflowFormat, planFormat, {Name: "ExecIR", Member: "execir_version", Version: ir.Version}}

// Migrate brings a document to the newest version of its format, one migration behind the other, and says which were
// applied ("1.0 → 1.1"). A document of that version comes back as it is, byte for byte. One without a version, of a newer
// one, or of one from which no way leads is refused with what is there and what is wanted.
func Migrate(data []byte, migrations []Migration) (out []byte, applied []string, findings []finding.Finding) {
	tree, findings := ir.ReadTree(data)
	if finding.HasErrors(findings) {
		return nil, nil, findings
	}
	for _, f := range formats {
		if v, ok := tree[f.Member]; ok {
			return migrateTree(data, tree, f, fmt.Sprint(v), migrations)
		}
	}
	return nil, nil, []finding.Finding{errorAt("version_missing", "", `"workflow_version", "planir_version" or "execir_version": "1.0"`,
		"the document has no version member, so its format is unknown")}
}

func migrateTree(data []byte, tree map[string]any, f ir.Format, version string, migrations []Migration) ([]byte, []string, []finding.Finding) {
	refuse := func(hint, format string, args ...any) ([]byte, []string, []finding.Finding) {
		return nil, nil, []finding.Finding{errorAt("version_unsupported", "/"+f.Member, hint, fmt.Sprintf(format, args...))}
	}
	var applied []string
	for version != f.Version {
		m := migrationFrom(migrations, f.Member, version)
		if m == nil {
			return refuse("rewrite it as "+f.Version+", or use a version of lattice that supports this one",
				"the document is %s %s; there is no migration to %s", f.Name, version, f.Version)
		}
		if len(applied) > len(migrations) {
			return refuse("", "the migrations of %s lead in a circle at %s", f.Name, version)
		}
		next, err := m.Apply(tree)
		if err != nil {
			return refuse("mend the document", "%s → %s: %v", m.From, m.To, err)
		}
		next[f.Member] = m.To
		tree, version = next, m.To
		applied = append(applied, m.From+" → "+m.To)
	}
	if len(applied) == 0 {
		return data, nil, nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(tree); err != nil {
		return refuse("", "write the document: %v", err)
	}
	return text.Bytes(), applied, nil
}

func migrationFrom(all []Migration, member, version string) *Migration {
	for i := range all {
		if all[i].Member == member && all[i].From == version {
			return &all[i]
		}
	}
	return nil
}
