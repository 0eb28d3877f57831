package ir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
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
func (f Format) Read(data []byte, doc any) (tree map[string]any, findings []Finding) {
	var r report
	tree = decodeTree(data, &r)
	if tree == nil || !f.check(tree, &r) {
		return nil, r.sorted()
	}
	if err := bindTo(f.sound(tree), doc, &r); err != nil {
		r.error("json_invalid", "", hintText, "read the document: %v", err)
		return nil, r.sorted()
	}
	return tree, r.sorted()
}

// check reports whether the document is to be read as one of this runtime's version: the same major, no newer minor. One
// that says its version in a wrong way is read too, with that finding, so that the others come at once.
func (f Format) check(tree map[string]any, r *report) bool {
	ptr, hint := "/"+f.Member, fmt.Sprintf("%q: %q", f.Member, f.Version)
	got, ok := tree[f.Member]
	if !ok {
		r.error("version_missing", ptr, hint, "the document does not say which version of %s it is; this lattice has %s", f.Name, f.Version)
		return false
	}
	text, _ := got.(string)
	m := versionPattern().FindStringSubmatch(text)
	if m == nil {
		r.error("version_invalid", ptr, hint, "a version is text of the form MAJOR.MINOR, not %s", inShort(got))
		return true
	}
	have := versionPattern().FindStringSubmatch(f.Version)
	minor, _ := strconv.Atoi(m[2])
	haveMinor, _ := strconv.Atoi(have[2])
	if m[1] != have[1] || minor > haveMinor {
		r.error("version_unsupported", ptr, "run it with a lattice of that version", "have %s %s, want %s: this lattice cannot run the document", f.Name, f.Version, text)
		return false
	}
	return true
}

// inShort is a value as findings quote it.
func inShort(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case json.Number:
		return v.String()
	}
	return typeName(v)
}

// sound is tree with a version of the right type, since check has said what is wrong with it.
func (f Format) sound(tree map[string]any) map[string]any {
	if _, ok := tree[f.Member].(string); ok {
		return tree
	}
	tree = maps.Clone(tree)
	tree[f.Member] = f.Version
	return tree
}

// bindTo checks the shape of tree against the struct that doc points to (unknown members, wrong types, bad conditions;
// all of them at once) and decodes what is sound. What is not becomes its zero value, so that the checks behind can go on.
func bindTo(tree map[string]any, doc any, r *report) error {
	b := binder{report: r}
	text, err := json.Marshal(b.fit(tree, reflect.TypeOf(doc).Elem(), ""))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, doc)
}

// Merge joins the findings of reading a document with those of the checks behind, less what those say about members
// that could not be read. The result is in document order.
func Merge(reading, later []Finding) []Finding {
	all := withoutEchoes(slices.Concat(reading, later), reading)
	return (&report{all}).sorted()
}

// Near returns a hint that names the candidates that look like name, or all of them when they are few.
func Near(name string, candidates []string) string { return near(name, candidates) }

// OneOf is Near for the members of a closed list: where none looks like name, all are named, however many.
func OneOf(name string, list []string) string { return oneOf(name, list) }

// SplitRef reads a string that is a reference as a whole: its namespace ("$vars") and the member names that follow.
// exact is false when an index or [*] comes behind them. ok is false for any other text.
func SplitRef(text string) (root string, names []string, exact, ok bool) {
	r, err := parseRef(text)
	if err != nil {
		return "", nil, false, false
	}
	names = r.names()
	return r.root, names, len(names) == len(r.segs), true
}

// RefAt returns the reference at the start of text, "" when there is none.
func RefAt(text string) string {
	end := len(rootPattern().FindString(text))
	for end > 0 {
		n := len(segPattern().FindString(text[end:]))
		if n == 0 {
			break
		}
		end += n
	}
	return text[:end]
}

// ReadTree reads data as one JSON object as strictly as Parse does, whatever it is a document of. The tree is nil when
// it cannot be read; equal keys are findings.
func ReadTree(data []byte) (tree map[string]any, findings []Finding) {
	var r report
	tree = decodeTree(data, &r)
	return tree, r.sorted()
}

// Duplicates lists the JSON pointers of all members of a JSON text that stand in their object twice, in the order of the
// text: readers would take one of the two, and not all the same. Of what is no JSON it lists what came before.
func Duplicates(data []byte) []string {
	var r report
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	_, _ = (&treeReader{d, nil, &r}).value("", -maxInputDepth) // what is no JSON is for others to say
	var at []string
	for _, f := range r.findings {
		at = append(at, f.Pointer)
	}
	return at
}

// maxInputDepth is how deep Duplicates looks beyond the depth of documents.
const maxInputDepth = 1000 - maxDocumentDepth

// CondOps lists the ops of conditions, sorted.
func CondOps() []string { return slices.Sorted(maps.Keys(condFields)) }

// FailureKinds lists the kinds of failures that retry and catch choose from, besides ALL.
func FailureKinds() []string { return slices.Clone(failureKinds) }
