package config

import "fmt"

// Tree reads a YAML file of another program as text, lists ([]any) and groups (map[string]any), within the bounds of a
// config file. Mistakes in it are *Problems.
func Tree(name string, data []byte) (map[string]any, error) {
	src, r := newSource(name, data)
	if err := r.err(); err != nil {
		return nil, err
	}
	root := parseTree(src, r)
	if err := r.err(); err != nil {
		return nil, err
	}
	if root == nil || root.kind != mappingNode {
		r.add(position{1, 1}, "", "the file has no keys; expected a YAML file of keys and values")
		return nil, r.err()
	}
	visits := 0
	group, _ := root.plain(&visits).(map[string]any)
	if visits > maxVisits {
		return nil, fmt.Errorf("aliases make more than %d values of %s", maxVisits, name)
	}
	return group, nil
}

// plain is a node without its places; nil where too many aliases were followed.
func (n *node) plain(visits *int) any {
	if *visits++; *visits > maxVisits {
		return nil
	}
	switch n.kind {
	case scalarNode:
		return n.text
	case mappingNode:
		g := make(map[string]any, len(n.pairs))
		for _, k := range n.pairs {
			g[k.name] = k.value.plain(visits)
		}
		return g
	case sequenceNode:
		list := make([]any, 0, len(n.items))
		for _, item := range n.items {
			list = append(list, item.plain(visits))
		}
		return list
	}
	return nil
}
