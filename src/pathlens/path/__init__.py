"""Ends → route. Which way from the baseline to the text?"""
