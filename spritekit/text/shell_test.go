package text

import "testing"

func TestShellWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"a-b_./=+:,@%Z9": "a-b_./=+:,@%Z9", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "ä": "'ä'", "~": "'~'", "a\nb": "'a\nb'",
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", word, got, want)
		}
	}
	if got := ShellLine([]string{"a", "b c", ""}); got != "a 'b c' ''" {
		t.Errorf("ShellLine = %s", got)
	}
}
