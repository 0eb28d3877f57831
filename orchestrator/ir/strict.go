package ir

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Format is a kind of document that carries its version, and the newest version of it that is read.
type Format struct {
	Name    string // for people: "ExecIR"
	Member  string // holds the version: "execir_version"
	Version string // "1.0"
}

// Read decodes a document of the format into the struct that doc points to, as strictly as Parse does: at most
// MaxDocumentBytes, duplicate and unknown keys refused (meta and x-… excepted), conditions checked, everything at once.
// A member that does not fit is left zero in doc, so that the caller can go on and find more. The tree is the document
// as it stands, numbers as json.Number; it is nil when nothing more can be said of the document.
func (f Format) Read(data []byte, doc any) (tree map[string]any, findings []finding.Finding) {
	var r finding.Report
	tree = DecodeTree(data, &r)
	if tree == nil || !f.CheckVersion(tree, &r) {
		return nil, r.SortedFindings()
	}
	if err := bindTo(f.WithValidVersion(tree), doc, &r); err != nil {
		r.AddError("json_invalid", "", HintText, "read the document: %v", err)
		return nil, r.SortedFindings()
	}
	return tree, r.SortedFindings()
}

// CheckVersion reports whether this runtime can read the version of the document: the same major, at most the same minor.
// A document with a malformed version is read too, so that its other findings are reported at once.
func (f Format) CheckVersion(tree map[string]any, r *finding.Report) bool {
	ptr, hint := "/"+f.Member, fmt.Sprintf("%q: %q", f.Member, f.Version)
	got, ok := tree[f.Member]
	if !ok {
		r.AddError("version_missing", ptr, hint, "the document does not name its version of %s; this lattice has %s", f.Name, f.Version)
		return false
	}
	text, _ := got.(string)
	m := versionPattern().FindStringSubmatch(text)
	if m == nil {
		r.AddError("version_invalid", ptr, hint, "a version is text of the form MAJOR.MINOR, not %s", InShort(got))
		return true
	}
	have := versionPattern().FindStringSubmatch(f.Version)
	minor, _ := strconv.Atoi(m[2])
	haveMinor, _ := strconv.Atoi(have[2])
	if m[1] != have[1] || minor > haveMinor {
		r.AddError("version_unsupported", ptr, "run it with a lattice of that version", "have %s %s, want %s: this lattice cannot run the document", f.Name, f.Version, text)
		return false
	}
	return true
}

// InShort is a value as findings quote it.
func InShort(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case json.Number:
		return v.String()
	}
	return expr.TypeName(v)
}

// WithValidVersion returns tree with a version of the right type, since checkVersion has reported a wrong one.
func (f Format) WithValidVersion(tree map[string]any) map[string]any {
	if _, ok := tree[f.Member].(string); ok {
		return tree
	}
	tree = maps.Clone(tree)
	tree[f.Member] = f.Version
	return tree
}

// bindTo checks the shape of tree against the struct that doc points to (unknown members, wrong types, bad conditions;
// all of them at once) and decodes the valid members. The others become zero values, so that later checks can go on.
func bindTo(tree map[string]any, doc any, r *finding.Report) error {
	b := binder{Report: r}
	text, err := json.Marshal(b.bindValue(tree, reflect.TypeOf(doc).Elem(), ""))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, doc)
}

// Merge joins the findings of decoding a document with those of later checks, except those about members that could not be
// decoded. The result is in document order.
func Merge(reading, later []finding.Finding) []finding.Finding {
	all := WithoutEchoes(slices.Concat(reading, later), reading)
	return (&finding.Report{Findings: all}).SortedFindings()
}

// ReadTree decodes data as one JSON object as strictly as Parse does. The tree is nil if data is malformed; duplicate keys
// are findings.
func ReadTree(data []byte) (tree map[string]any, findings []finding.Finding) {
	var r finding.Report
	tree = DecodeTree(data, &r)
	return tree, r.SortedFindings()
}
