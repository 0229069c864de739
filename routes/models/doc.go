// Package models shows the models of a gateway: the list of models and one of them, their traits
// and the names of other services' models that stand for them.
//
// Capability is the type that main registers. The records are made once a config, in
// providers.Catalog; here is only which of them a request gets to see. Nothing is sold
// here and nothing changed.
package models
