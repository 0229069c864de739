// Package web holds the web tools of one config: [Tools] are its scraper, its searches and
// its parsers of documents. They are made once for all users: the endpoints that sell them
// by the call, and chat, which puts their results before a model.
//
// Out of scope: prices and the answers to clients.
package web
