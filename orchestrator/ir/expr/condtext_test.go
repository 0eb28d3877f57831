package expr

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTextOfConditions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$out.id in $in.candidates[*].id`: `{"left":"$out.id","op":"in","right":"$in.candidates[*].id"}`,
		`len($out.body) >= 20`:            `{"left":{"len":"$out.body"},"op":"ge","right":20}`,
		`$out.a == 1 && $out.b != 'x' || !($out.c < -1.5e3)`: `{"args":[{"args":[{"left":"$out.a","op":"eq","right":1},{"left":"$out.b","op":"ne","right":"x"}],"op":"and"},` +
			`{"args":[{"left":"$out.c","op":"lt","right":-1.5e3}],"op":"not"}],"op":"or"}`,
		`$out.a==1&&$out.b==2&&$out.c==3`:       `{"args":[{"left":"$out.a","op":"eq","right":1},{"left":"$out.b","op":"eq","right":2},{"left":"$out.c","op":"eq","right":3}],"op":"and"}`,
		`matches($out.id, "^C\\d$")`:            `{"left":"$out.id","op":"matches","pattern":"^C\\d$"}`,
		`$out.x in ["a", 'it\'s "q"', "$5"]`:    `{"left":"$out.x","op":"in","right":["a","it's \"q\"",{"lit":"$5"}]}`,
		`exists($out['a b'].c[0])`:              `{"op":"exists","ref":"$out['a b'].c[0]"}`,
		`has_key($out, "k") && is_null($out.k)`: `{"args":[{"key":"k","op":"has_key","ref":"$out"},{"op":"is_null","ref":"$out.k"}],"op":"and"}`,
		`contains($out.tags, "x")`:              `{"left":"$out.tags","op":"contains","right":"x"}`,
		`type_is($out.n, "integer")`:            `{"op":"type_is","ref":"$out.n","type":"integer"}`,
		`$out.ok == true`:                       `{"left":"$out.ok","op":"eq","right":true}`,
		`$out.none == null`:                     `{"left":"$out.none","op":"eq","right":null}`,
	} {
		c, err := ParseCond(text)
		if err != nil {
			t.Errorf("ParseCond(%s) = %v", text, err)
			continue
		}
		if got, _ := json.Marshal(c); strings.ReplaceAll(string(got), `\u003e`, ">") != want {
			t.Errorf("ParseCond(%s) = %s\nwant %s", text, got, want)
		}
	}
}

func TestTextThatIsNoCondition(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		``: "ends where a value", `$out.id`: "ends where a comparison", `$out.id = "x"`: `character 9`, `$out.a == `: "ends where a value",
		`$out.a == "x`: "the quote is not closed", `($out.a == 1`: `ends where ")"`, `$out.a == 1 $out.b`: "the end is wanted",
		`exists("x")`: "a reference is wanted", `matches($out.a, $in.b)`: "a text in quotes", `eval($out)`: "a value is wanted",
		`$out.a == 01`: "a number", `$out..a == 1`: "", `$nowhere.a == 1`: "", `matches($out.a, "(")`: "", `$out.a == [1,]`: "a value is wanted",
		strings.Repeat("(", 1000) + "$out.a == 1": "nests deeper", strings.Repeat("x", MaxCondText+1): "bytes", `$out.a in [1, 2`: `","`, `"\q" == "a"`: "JSON",
	} {
		if c, err := ParseCond(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseCond(%.60s) = %v, %v, want %q", text, c, err, says)
		}
	}
}

func FuzzParseCond(f *testing.F) {
	for _, s := range []string{`$out.id in $in.c[*].id`, `len($out.a) > 1 && !exists($out.b)`, `"\u0000" == '`, `[[`, `$['`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCond(text)
		if err != nil {
			return
		}
		again, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := new(Cond).UnmarshalJSON(again); err != nil {
			t.Errorf("ParseCond(%q) makes %s, which is refused: %v", text, again, err)
		}
	})
}
