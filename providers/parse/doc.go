// Package parse makes text of documents that clients send: PDF, DOCX, PPTX,
// XLSX, XLS, EPUB, and everything that is text already. A [Parser] tells formats
// by their content, never by a name, and has [Jobs] done in the jail, or asks an
// operator's pdftotext, Tika or tesseract; an [Error] says to the client what is
// wrong with the document.
//
// Readers count what they unpack (archives, parts, nesting, text) and stop with
// a sentence; what they overlook ends at the jail's limits.
//
// What may not enter: knowledge of requests, models and prices.
package parse
