package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Origin says where the value of a key comes from: "default", "file:12",
// "NATS_URL", "--nats", "context prod".
func (c *Config) Origin(key string) string {
	if o := c.origins[key]; o != "" {
		return o
	}
	if line := c.lines[key]; line > 0 {
		return "file:" + strconv.Itoa(line)
	}
	return "default"
}

// place is the origin as faults name it; empty for a default.
func (c *Config) place(key string) (place string, line int) {
	if o := c.origins[key]; o != "" && o != "default" {
		return o, 0
	}
	if line := c.lines[key]; line > 0 {
		return c.Path + ":" + strconv.Itoa(line), line
	}
	return "", 0
}

// Refuse is the error of faults that were found by whoever knows what the values
// mean: each is given the place of its Key, or of the block around it. It is nil
// for none, else *Faults.
func (c *Config) Refuse(list ...Fault) error {
	for i := range list {
		f := &list[i]
		for key := f.Key; f.Place == "" && key != ""; key = key[:max(strings.LastIndexByte(key, '.'), 0)] {
			f.Place, f.Line = c.place(key)
		}
		if f.Place == "" {
			f.Place = "the configuration"
		}
	}
	return faultsError(list)
}

// ContextNames lists the contexts of the file, sorted.
func (c *Config) ContextNames() []string {
	return slices.Sorted(maps.Keys(c.Contexts))
}

// ReadSecrets reads the password and token files of the chosen servers into
// NATS and Redis, and makes sure that the files of other logins can be opened.
// It may block on a slow disk. The error is *Faults.
func (c *Config) ReadSecrets() error {
	var faults []Fault
	read := func(key, name string, into *Secret) {
		if name == "" {
			return
		}
		secret, warning, fault := readSecret(c.files, name)
		c.note(&faults, key, warning, fault)
		if fault == "" {
			*into = secret
		}
	}
	probe := func(key, name string) {
		if name == "" {
			return
		}
		f, err := c.files.Open(name, false)
		if err != nil {
			c.note(&faults, key, "", "cannot open "+quoted(name)+": "+reason(err)+"; correct the name or its permissions")
			return
		}
		f.Close()
	}
	n, r := &c.NATS, &c.Redis
	if n.Address != None {
		read(c.paths.nats+".password_file", n.passwordFile, &n.Password)
		read(c.paths.nats+".token_file", n.tokenFile, &n.Token)
		probe(c.paths.nats+".creds_file", n.CredsFile)
		probe(c.paths.nats+".nkey_file", n.NKeyFile)
	}
	if r.Address != None {
		read(c.paths.redis+".password_file", r.passwordFile, &r.Password)
	}
	return faultsError(faults)
}

// SecretFile reads the secret that a key such as "serve.token_file" names. The
// zero Secret means that the key is not set. The error is *Faults.
func (c *Config) SecretFile(key string) (Secret, error) {
	var name string
	var known bool
	(&block{c.Settings.fields()}).leaves("", func(k string, v leaf) {
		if p, ok := v.(*pathValue); ok && k == key {
			name, known = *p.dst, true
		}
	})
	if !known {
		return Secret{}, fmt.Errorf("%q is not a setting that names a file", key)
	}
	if name == "" {
		return Secret{}, nil
	}
	var faults []Fault
	secret, warning, fault := readSecret(c.files, name)
	c.note(&faults, key, warning, fault)
	return secret, faultsError(faults)
}

func (c *Config) note(faults *[]Fault, key, warning, fault string) {
	place, line := c.place(key)
	if place == "" {
		place = "default"
	}
	if warning != "" {
		c.Warnings = append(c.Warnings, key+": "+warning)
	}
	if fault != "" {
		*faults = append(*faults, Fault{Place: place, Line: line, Key: key, Text: fault})
	}
}
