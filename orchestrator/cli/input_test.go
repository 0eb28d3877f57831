package cli

import "testing"

func TestParsePair(t *testing.T) {
	t.Parallel()
	for pair, want := range map[string]string{
		"a=b=c": `a "b=c"`, "a=": `a ""`, "a:=[1]": "a [1]", "a::=1": "a: 1", "a=:=": `a ":="`,
		"a": "", "=b": "", ":=1": "", "a:=": "", "a:={": "", `a:={"b":1,"b":2}`: "",
		"a=\xff": "", "\xff=b": "", "a:=\"\xff\"": "", "\xff:=1": "",
	} {
		name, value, err := ParsePair(pair)
		if got := name + " " + string(value); err == nil && got != want || (err == nil) != (want != "") {
			t.Errorf("ParsePair(%q) = %s, %v, want %s", pair, got, err, want)
		}
	}
}
