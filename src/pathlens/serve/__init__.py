"""The same over HTTP, with a page. FastAPI and uvicorn, only models named at start, nothing fetched."""
