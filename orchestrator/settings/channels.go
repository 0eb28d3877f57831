package settings

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Channel is a place where people are told about runs, under the name by which skills and [notify] name it. Its address
// comes from the settings alone, never from a sprite.
//
//	[channels.ops]
//	kind = "slack"
//	url_env = "SLACK_WEBHOOK"
//	min_level = "warning"
//
//	[channels.phone]
//	kind = "ntfy"
//	url = "https://ntfy.sh/my-topic"
//
//	[channels.hook]
//	kind = "webhook"
//	url = "https://example.org/lattice"
//	secret_file = "~/.config/lattice/hook"
type Channel struct {
	// Kind is how the channel is spoken to: webhook is signed JSON (Standard Webhooks), slack an incoming webhook of Slack
	// or a compatible service, ntfy a topic of an ntfy server.
	Kind ChannelKind `json:"kind"`
	// URL is the address. One that is a secret, as Slack's are, belongs in URLEnv or URLFile.
	URL string `json:"url,omitempty"`
	// URLEnv names the environment variable that holds the address.
	URLEnv string `json:"url_env,omitempty"`
	// URLFile is the path of a file with the address that only you may read; ~/ is the home directory.
	URLFile string `json:"url_file,omitempty"`
	// SecretEnv names the environment variable with the secret that signs a webhook's requests, or ntfy's access token.
	SecretEnv string `json:"secret_env,omitempty"`
	// SecretFile is the path of a file with that secret that only you may read; ~/ is the home directory.
	SecretFile string `json:"secret_file,omitempty"`
	// MinLevel is the least level that the channel takes: info (the default), warning or error.
	MinLevel NotifyLevel `json:"min_level,omitempty"`
}

// Notify says about which events people are notified without a skill's request.
type Notify struct {
	// Channel takes notifications for which no channel was named; without it they are only shown with the run.
	Channel string `json:"channel,omitempty"`
	// On lists the changes to tell of: waiting (a run waits for a person), failed, succeeded.
	On []NotifyEvent `json:"on,omitempty"`
}

// ChannelKind names how a channel is spoken to.
type ChannelKind string

// ChannelKinds are the values of ChannelKind.
func ChannelKinds() []string { return []string{"webhook", "slack", "ntfy"} }

// NotifyLevel is the importance of a notification.
type NotifyLevel string

// NotifyLevels are the values of NotifyLevel, least first.
func NotifyLevels() []string { return []string{"info", "warning", "error"} }

// NotifyEvent is an event of a run about which people can be notified.
type NotifyEvent string

// NotifyEvents are the values of NotifyEvent.
func NotifyEvents() []string { return []string{"waiting", "failed", "succeeded"} }

var channelName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) })

func checkChannels(s Settings) (found []Finding) {
	for _, name := range slices.Sorted(maps.Keys(s.Channels)) {
		found = append(found, checkChannel("channels."+name, name, s.Channels[name])...)
	}
	names := slices.Sorted(maps.Keys(s.Channels))
	if c := s.Notify.Channel; c != "" && !slices.Contains(names, c) {
		found = append(found, Finding{Code: CodeValue, Key: "notify.channel", Message: fmt.Sprintf("there is no channel %q", c), Hint: "add [channels." + c + "], or name one of these: " + strings.Join(names, ", ")})
	}
	for _, on := range s.Notify.On {
		if !slices.Contains(NotifyEvents(), string(on)) {
			found = append(found, Finding{Code: CodeValue, Key: "notify.on", Message: fmt.Sprintf("%q is not known", on), Hint: "one of " + strings.Join(NotifyEvents(), ", ")})
		}
	}
	if len(s.Notify.On) > 0 && s.Notify.Channel == "" {
		found = append(found, Finding{Code: CodeValue, Key: "notify.on", Message: "there is no channel to tell it on", Hint: "set notify.channel"})
	}
	return found
}

func checkChannel(at, name string, c Channel) (found []Finding) {
	bad := func(code, key, message, hint string) {
		found = append(found, Finding{Code: code, Key: joinKey(at, key), Message: message, Hint: hint})
	}
	if !channelName().MatchString(name) {
		found = append(found, Finding{Code: CodeValue, Key: at, Message: "it is not the name of a channel", Hint: "letters, digits, dots, hyphens and underscores, such as ops"})
	}
	if !slices.Contains(ChannelKinds(), string(c.Kind)) {
		bad(CodeValue, "kind", fmt.Sprintf("%q is not known", c.Kind), "one of "+strings.Join(ChannelKinds(), ", "))
	}
	if c.MinLevel != "" && !slices.Contains(NotifyLevels(), string(c.MinLevel)) {
		bad(CodeValue, "min_level", fmt.Sprintf("%q is not known", c.MinLevel), "one of "+strings.Join(NotifyLevels(), ", "))
	}
	if countSet(c.URL, c.URLEnv, c.URLFile) != 1 {
		bad(CodeValue, "url", "exactly one of url, url_env and url_file is needed", "a URL that is a secret belongs in url_env or url_file")
	}
	if countSet(c.SecretEnv, c.SecretFile) > 1 {
		bad(CodeValue, "secret_file", "secret_env and secret_file are both set", "keep one of them")
	}
	switch {
	case c.Kind == "webhook" && countSet(c.SecretEnv, c.SecretFile) == 0:
		bad(CodeValue, "secret_env", "a webhook needs a secret that signs its requests", "secret_env names an environment variable, secret_file a file that only you may read")
	case c.Kind == "slack" && countSet(c.SecretEnv, c.SecretFile) > 0:
		bad(CodeValue, "secret_env", "slack uses no secret but its URL", "leave it out")
	}
	for key, variableName := range map[string]string{"url_env": c.URLEnv, "secret_env": c.SecretEnv} {
		if variableName != "" && (!variable().MatchString(variableName) || len(variableName) >= 20 && tokenLike().MatchString(variableName)) {
			bad(CodeSecret, key, "it looks like a secret, not like the name of a variable", key+" names an environment variable")
		}
	}
	for key, path := range map[string]string{"url_file": c.URLFile, "secret_file": c.SecretFile} {
		if path != "" && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~/") {
			bad(CodeValue, key, "it is not an absolute path", "begin it with / or ~/")
		}
	}
	if c.URL == "" {
		return found
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		bad(CodeValue, "url", "it is not an http or https URL", "such as https://ntfy.sh/my-topic")
	case u.User != nil:
		bad(CodeSecret, "url", "the URL holds credentials", "use url_env or url_file")
	case c.Kind == "slack" && !isLoopback(u.Hostname()):
		bad(CodeSecret, "url", "the URL of a Slack webhook is a secret", "use url_env or url_file")
	case u.Scheme == "http" && c.Kind == "ntfy" && countSet(c.SecretEnv, c.SecretFile) > 0 && !isLoopback(u.Hostname()):
		bad(CodeValue, "url", "the access token would travel unencrypted", "use https")
	}
	return found
}

// countSet returns how many of the values are set.
func countSet(values ...string) (n int) {
	for _, v := range values {
		if v != "" {
			n++
		}
	}
	return n
}
