package sudo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSudo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want invocation
		err  string
	}{
		{[]string{"id", "-u"}, invocation{user: "root", argv: []string{"id", "-u"}}, ""},
		{[]string{"-nE", "--", "apt-get", "-y"}, invocation{user: "root", argv: []string{"apt-get", "-y"}}, ""},
		{[]string{"-u", "nobody", "id"}, invocation{user: "nobody", argv: []string{"id"}}, ""},
		{[]string{"-unobody", "id"}, invocation{user: "nobody", argv: []string{"id"}}, ""},
		{[]string{"--user=nobody", "-g", "tty", "id"}, invocation{user: "nobody", group: "tty", argv: []string{"id"}}, ""},
		{[]string{"A=1", "B=", "env", "C=2"}, invocation{user: "root", env: []string{"A=1", "B="}, argv: []string{"env", "C=2"}}, ""},
		{[]string{"-i"}, invocation{user: "root", shell: true, login: true, argv: []string{}}, ""},
		{[]string{"-s", "echo", "x"}, invocation{user: "root", shell: true, argv: []string{"echo", "x"}}, ""},
		{[]string{"-v"}, invocation{user: "root", validate: true, argv: []string{}}, ""},
		{nil, invocation{user: "root"}, "no command given"},
		{[]string{"-u"}, invocation{user: "root"}, "an option lacks its value"},
		{[]string{"-Z", "id"}, invocation{user: "root"}, "unknown option -Z"},
	} {
		got, err := parseSudo(c.args)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(invocation{})); text != c.err || diff != "" && c.err == "" {
			t.Errorf("parseSudo(%q) = %v, %s", c.args, err, diff)
		}
	}
}
