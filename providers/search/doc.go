// Package search asks services that search the web. [Service] holds those of one
// config and [Service.Find] asks them, one after the other, until one has an
// answer.
//
// There is one adapter. The config holds the request of a service and the paths in its
// answer as data (config.SearchFormat): request.go fills in the words, answer.go reads the
// results.
//
// Out of scope: prices, the texts that clients get, and logs. A client's query leaves the
// process in the request to the service and in nothing else.
package search
