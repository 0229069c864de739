// Package web holds what one config reads the world with: [Tools] are its pages,
// its searches and its documents. They are made once for everybody who needs
// them: the endpoints that sell them by the call, and chat, which puts what they
// find before a model.
//
// What may not enter: prices and what clients read.
package web
