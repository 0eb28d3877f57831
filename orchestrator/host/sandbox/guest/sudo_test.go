package guest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSudo(t *testing.T) {
	for _, c := range []struct {
		args []string
		want sudoCall
		err  string
	}{
		{[]string{"id", "-u"}, sudoCall{user: "root", argv: []string{"id", "-u"}}, ""},
		{[]string{"-nE", "--", "apt-get", "-y"}, sudoCall{user: "root", argv: []string{"apt-get", "-y"}}, ""},
		{[]string{"-u", "nobody", "id"}, sudoCall{user: "nobody", argv: []string{"id"}}, ""},
		{[]string{"-unobody", "id"}, sudoCall{user: "nobody", argv: []string{"id"}}, ""},
		{[]string{"--user=nobody", "-g", "tty", "id"}, sudoCall{user: "nobody", group: "tty", argv: []string{"id"}}, ""},
		{[]string{"A=1", "B=", "env", "C=2"}, sudoCall{user: "root", env: []string{"A=1", "B="}, argv: []string{"env", "C=2"}}, ""},
		{[]string{"-i"}, sudoCall{user: "root", shell: true, login: true, argv: []string{}}, ""},
		{[]string{"-s", "echo", "x"}, sudoCall{user: "root", shell: true, argv: []string{"echo", "x"}}, ""},
		{[]string{"-v"}, sudoCall{user: "root", validate: true, argv: []string{}}, ""},
		{nil, sudoCall{user: "root"}, "no command given"},
		{[]string{"-u"}, sudoCall{user: "root"}, "an option lacks its value"},
		{[]string{"-Z", "id"}, sudoCall{user: "root"}, "unknown option -Z"},
	} {
		got, err := parseSudo(c.args)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(sudoCall{})); text != c.err || diff != "" && c.err == "" {
			t.Errorf("parseSudo(%q) = %v, %s", c.args, err, diff)
		}
	}
}
