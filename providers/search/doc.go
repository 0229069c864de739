// Package search asks services that search the web. [Service] holds those of one
// config and [Service.Find] asks them, one after the other, until one has an
// answer.
//
// There is one adapter. How a service is asked and where its answer has what
// is in the config as data (config.SearchFormat): request.go fills in the
// words, answer.go reads the results.
//
// What may not enter: prices, the texts that clients get, and logs. What a client
// searches for leaves the process in the request to the service and in nothing
// else.
package search
