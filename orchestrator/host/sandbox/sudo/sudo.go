// Package sudo is the program sudo of a box: it asks init to start a command, passes on its descriptors, and exits as the command
// does. It needs no password and no sudoers file, because the box confines its root. Package guest answers it.
package sudo

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Socket is where init listens for requests.
const Socket = "/run/sudo.sock"

// Request asks init to start a command as a user.
type Request struct {
	Command channel.Command `json:"command"`
	UID     uint32          `json:"uid"`
	GID     uint32          `json:"gid"`
	Groups  []uint32        `json:"groups,omitempty"`
}

const usage = `usage: sudo [-EHins] [-u user] [-g group] [--] [VAR=value] command

Runs a command in this sprite as root, or another user of the sprite. Root may change any file of the sprite and the owners of
files, be any user, and signal any process; it can neither mount, nor trace, nor change the network or the kernel.
`

// invocation is a parsed command line of sudo.
type invocation struct {
	user, group string
	shell       bool // -s, -i
	login       bool // -i
	env         []string
	argv        []string
	validate    bool // -v, -k: nothing to do
	help        bool
	alone       string // not empty where root is the only user that a command can be: the remedy
}

// parseSudo reads a command line as sudo does.
func parseSudo(args []string) (c invocation, err error) {
	c.user = "root"
	value := func(rest string) (string, error) {
		if rest != "" {
			return rest, nil
		}
		if len(args) == 0 {
			return "", errors.New("an option lacks its value")
		}
		v := args[0]
		args = args[1:]
		return v, nil
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		option := args[0]
		args = args[1:]
		if option == "--" {
			break
		}
		if long, ok := strings.CutPrefix(option, "--"); ok {
			name, v, _ := strings.Cut(long, "=")
			switch name {
			case "user":
				c.user, err = value(v)
			case "group":
				c.group, err = value(v)
			case "login":
				c.shell, c.login = true, true
			case "shell":
				c.shell = true
			case "validate", "reset-timestamp", "remove-timestamp":
				c.validate = true
			case "help", "version":
				c.help = true
			case "preserve-env", "set-home", "non-interactive", "stdin", "preserve-groups":
			default:
				err = fmt.Errorf("unknown option %s", option)
			}
			if err != nil {
				return c, err
			}
			continue
		}
		for letters := option[1:]; letters != ""; {
			letter := letters[0]
			letters = letters[1:]
			switch letter {
			case 'u', 'g', 'p', 'C', 'D', 'R', 'T', 'h':
				if letter == 'h' && letters == "" && len(args) == 0 {
					c.help = true
					break
				}
				v, err := value(letters)
				if err != nil {
					return c, err
				}
				letters = ""
				switch letter {
				case 'u':
					c.user = v
				case 'g':
					c.group = v
				case 'D', 'R', 'h':
					return c, fmt.Errorf("option -%c is not offered here", letter)
				}
			case 'i':
				c.shell, c.login = true, true
			case 's':
				c.shell = true
			case 'v', 'k', 'K', 'l':
				c.validate = true
			case 'V':
				c.help = true
			case 'E', 'H', 'n', 'S', 'A', 'P', 'B', 'N':
			default:
				return c, fmt.Errorf("unknown option -%c", letter)
			}
		}
	}
	for len(args) > 0 && strings.Contains(args[0], "=") && !strings.HasPrefix(args[0], "=") && !strings.ContainsAny(strings.SplitN(args[0], "=", 2)[0], "/.") {
		c.env, args = append(c.env, args[0]), args[1:]
	}
	c.argv = args
	if len(args) == 0 && !c.shell && !c.validate && !c.help {
		return c, errors.New("no command given")
	}
	return c, nil
}

// account is a line of /etc/passwd.
type account struct {
	name, home, shell string
	uid, gid          uint32
}

// findEntry reads /etc/passwd or /etc/group and returns the first line whose name or number is key.
func findEntry(file, key string) ([]string, bool) {
	f, err := os.Open(file)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	number, isNumber := strings.CutPrefix(key, "#")
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Split(sc.Text(), ":")
		if len(fields) > 2 && (fields[0] == key || isNumber && fields[2] == number) {
			return fields, true
		}
	}
	return nil, false
}

func parseNumber(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32) // the file is the box's own
	return uint32(n)
}

func findAccount(user string) (a account, err error) {
	fields, ok := findEntry("/etc/passwd", user)
	if ok && len(fields) > 6 {
		return account{fields[0], fields[5], fields[6], parseNumber(fields[2]), parseNumber(fields[3])}, nil
	}
	if user == "root" {
		return account{name: "root", home: "/root", shell: "/bin/sh"}, nil
	}
	if n, ok := strings.CutPrefix(user, "#"); ok {
		uid, err := strconv.ParseUint(n, 10, 16)
		if err == nil {
			return account{name: n, home: "/", uid: uint32(uid), gid: uint32(uid)}, nil
		}
	}
	return a, fmt.Errorf("unknown user %s", user)
}

// groupsOf lists the groups that have a user as a member.
func groupsOf(user string) (groups []uint32) {
	text, err := os.ReadFile("/etc/group")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 3 && slices.Contains(strings.Split(fields[3], ","), user) {
			groups = append(groups, parseNumber(fields[2]))
		}
	}
	return groups
}

// packageManagers become other users themselves and give files to them, or install programs that expect to.
var packageManagers = []string{"apt", "apt-get", "aptitude", "dpkg", "dnf", "microdnf", "yum", "rpm", "apk", "pacman", "zypper"}

// ErrKeeperGone says that programs of the sprite have ended the process behind sudo, as kill -9 -1 does.
var ErrKeeperGone = errors.New("a program of this sprite ended the process that keeps root; restart the sprite to have root again")

// checkAlone refuses requests that root cannot fulfil without other users; why is the remedy.
func (c invocation) checkAlone(r *Request, why string) error {
	program := path.Base(string(r.Command.Program))
	switch {
	case slices.Contains(packageManagers, program):
		return fmt.Errorf("%s needs more users than this sprite has: %s", program, why)
	case r.UID != 0 || r.GID != 0:
		return fmt.Errorf("this sprite has no users besides root and sprite: %s", why)
	}
	return nil
}

// Main is the program. The result is its exit status.
func Main(args, environ []string) int {
	alone := ""
	if len(args) > 1 && args[0] == spec.AloneArg {
		alone, args = args[1], args[2:]
	}
	c, err := parseSudo(args)
	c.alone = alone
	if err == nil && (c.help || c.validate) {
		if c.help {
			fmt.Print(usage)
		}
		return 0
	}
	var code int
	if err == nil {
		code, err = c.run(environ)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sudo:", err)
		return max(code, 1)
	}
	return code
}

// requestOf returns the request to init for c.
func (c invocation) requestOf(environ []string) (*Request, error) {
	as, err := findAccount(c.user)
	if err != nil {
		return nil, err
	}
	r := &Request{UID: as.uid, GID: as.gid, Groups: groupsOf(as.name)}
	if c.group != "" {
		fields, ok := findEntry("/etc/group", c.group)
		if !ok {
			return nil, fmt.Errorf("unknown group %s", c.group)
		}
		r.GID = parseNumber(fields[2])
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	if c.login {
		dir = as.home
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		dir = "/"
	}
	argv := c.argv
	if c.shell {
		shell := as.shell
		for _, kv := range environ {
			if own, ok := strings.CutPrefix(kv, "SHELL="); ok && own != "" && !c.login {
				shell = own
			}
		}
		if shell == "" || strings.HasSuffix(shell, "/nologin") {
			shell = "/bin/sh"
		}
		if argv = []string{shell}; len(c.argv) > 0 {
			argv = append(argv, "-c", strings.Join(c.argv, " "))
		}
	}
	env := map[string]string{
		"HOME": as.home, "USER": as.name, "LOGNAME": as.name, "SUDO_USER": "sprite", "SUDO_UID": strconv.Itoa(os.Getuid()),
		"SUDO_GID": strconv.Itoa(os.Getgid()), "SUDO_COMMAND": strings.Join(argv, " "), "MAIL": "",
	}
	for _, kv := range c.env {
		name, v, _ := strings.Cut(kv, "=")
		env[name] = v
	}
	r.Command = channel.Command{Program: []byte(argv[0]), Argv: argv, Dir: []byte(dir), Stdio: [3]bool{true, true, true}}
	for _, kv := range environ {
		if name, _, _ := strings.Cut(kv, "="); env[name] == "" {
			r.Command.Env = append(r.Command.Env, kv)
		}
	}
	for name, v := range env {
		if v != "" {
			r.Command.Env = append(r.Command.Env, name+"="+v)
		}
	}
	return r, nil
}

// run asks init, passes signals on, and returns how the command ended.
func (c invocation) run(environ []string) (code int, err error) {
	r, err := c.requestOf(environ)
	if err != nil {
		return 1, err
	}
	if c.alone != "" {
		if err := c.checkAlone(r, c.alone); err != nil {
			return 1, err
		}
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: Socket, Net: "unix"})
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && c.alone != "":
		return 1, ErrKeeperGone
	case err != nil:
		return 1, errors.New("this sprite has no root: nothing answers on " + Socket)
	}
	defer conn.Close()
	init := &channel.Socket{Conn: conn, Limit: channel.MaxReply}
	if err := conn.SetWriteDeadline(time.Now().Add(Timeout)); err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := init.Send(struct {
		Root *Request `json:"root"`
	}{r}, 0, 1, 2); err != nil {
		return 1, err
	}
	var passing sync.WaitGroup
	defer passing.Wait()
	defer close(signals)
	defer signal.Stop(signals)
	passing.Go(func() {
		for s := range signals {
			if conn.SetWriteDeadline(time.Now().Add(Timeout)) == nil {
				_ = init.Send(channel.Request{Op: channel.OpSignal, Signal: int(s.(syscall.Signal))}) // a command that has ended needs none
			}
		}
	})
	var answer channel.Reply
	files, err := init.Receive(&answer)
	channel.CloseAll(files)
	switch {
	case err != nil:
		return 1, errors.New("the sprite's init takes no more requests for the moment; try again")
	case answer.Op == channel.OpFailed:
		return answer.Code, errors.New(answer.Error)
	}
	return answer.Code, nil
}

// Timeout bounds how long init may take to accept a request.
const Timeout = 10 * time.Second
