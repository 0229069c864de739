package config

import (
	"io/fs"
	"net"
	"path/filepath"
	"strings"
)

// Characters are the characters of chats (addendum 18): a file each in a folder, with a
// picture beside it, read again whenever the folder changes.
type Characters struct {
	// The folder. A relative path begins at the folder of this file.
	Directory string `yaml:"directory" default:"characters"`
	// Prompt of a character. Every request of a chat with it carries it and pays for it.
	MaxPrompt Size `yaml:"max_prompt" default:"32KB" range:"1KB..256KB"`
	// Picture of a character.
	MaxPicture Size `yaml:"max_picture" default:"512KB" range:"1KB..8MB"`
	// All pictures together, which are served from memory.
	Memory Size `yaml:"memory" default:"64MB" range:"1MB..4GB"`

	files fs.FS // of the demonstration, instead of Directory
}

// complete makes the folder's path independent of the working directory's.
func (c *Characters) complete(source string) {
	if c != nil && !filepath.IsAbs(c.Directory) && source != "" {
		c.Directory = filepath.Join(filepath.Dir(source), c.Directory)
	}
}

// Same says that a folder which was opened with c serves for other, too.
func (c *Characters) Same(other *Characters) bool { return *c == *other }

func (v *validator) characters() {
	c := v.c.Characters
	if c == nil {
		return
	}
	written := v.textOf("characters.directory")
	if strings.HasPrefix(written, "~/") {
		v.wrong("characters.directory", "~ is not expanded here; expected the whole path, or ${HOME}/…")
	} else if strings.Contains(written, "://") || v.has("characters.directory") && written == "" {
		v.wrong("characters.directory", "%s is not a directory; expected a path such as characters",
			v.shown("characters.directory"))
	}
}

// textOf is a value as it is written.
func (v *validator) textOf(path string) string {
	if w, ok := v.at[path]; ok && w.node != nil {
		return w.node.text
	}
	return ""
}

// PublicAddress is how the outside reaches this service, such as
// https://api.example.com: public_url, or the address it listens on where that names a
// host. Empty: it is not known.
func (c *Config) PublicAddress() string {
	if c.PublicURL != "" {
		return strings.TrimRight(c.PublicURL, "/")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || host == "" || host == "unix" || ip != nil && ip.IsUnspecified() {
		return ""
	}
	if c.TLS.Cert != "" {
		return "https://" + c.Listen
	}
	return "http://" + c.Listen
}

// CharactersIn is a folder with the usual bounds, for commands.
func CharactersIn(directory string) *Characters {
	c := Default[Characters]()
	c.Directory = directory
	return &c
}
