package slug

import "testing"

func TestMake(t *testing.T) {
	for title, want := range map[string]string{
		"Hello, World!":           "hello-world",
		"  Leading and trailing ": "leading-and-trailing",
		"Go 1.26":                 "go-1-26",
		"Ünïcode stays":           "ünïcode-stays",
		"":                        "",
	} {
		if got := Make(title); got != want {
			t.Errorf("Make(%q) = %q, want %q", title, got, want)
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		slug string
		n    int
		want string
	}{
		{"hello-world", 20, "hello-world"},
		{"hello-world", 7, "hello"},
		{"hello-world", 5, "hello"},
		{"hello", 3, "hel"},
	} {
		if got := Truncate(c.slug, c.n); got != c.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.slug, c.n, got, c.want)
		}
	}
}
